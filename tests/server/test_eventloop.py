"""Both event loops serve alike: asyncio's, and uvloop's where it is installed."""

from __future__ import annotations

import sys

import pytest
import wirescript
from wirepeer import WirePeer, message

from reput_client.remoting import Command, RequestCode

LOOPS = ("asyncio", "uvloop")


@pytest.fixture(params=LOOPS)
def event_loop_name(request, monkeypatch):
    """Whose event loop the server takes."""
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)  # as if it were not installed
    else:
        pytest.importorskip("uvloop")
    return request.param


@pytest.fixture
def files(tmp_path_factory):
    from certificates import make_certificates

    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_what_is_sent_is_taken_plain_and_encrypted_and_the_end_is_in_order(
    event_loop_name, serve, files
):
    served = serve(tls=files.tls())
    assert served.server.event_loop == event_loop_name
    body = bytes(range(256)) * 2_000
    with WirePeer(served.server.address) as plain, WirePeer(served.server.address) as secret:
        secret.socket = files.context().wrap_socket(secret.socket, server_hostname="127.0.0.1")
        plain.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"makes the topic")
        served.store.wait_dispatched()
        pull = wirescript.pull(1, hold_ms=15_000, max_msg_bytes=8 << 20)
        waiting = secret.send(Command.request(RequestCode.PULL_MESSAGE, pull))
        sent = plain.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=body)
        taken = secret.receive()
        for _ in range(200):
            plain.send(Command.request(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x"))
        answers = [plain.receive() for _ in range(200)]
        served._open.close()

        assert (sent.code, taken.opaque, taken.code) == (0, waiting.opaque, 0)
        assert body in taken.body
        assert [int(each.fields["queueOffset"]) for each in answers] == list(range(2, 202))
        assert plain.is_closed()

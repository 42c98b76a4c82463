"""Encrypted connections: by the first byte, with files that fit, and with those that do not."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme
import wirescript
from certificates import Certificates, make_certificates
from wirepeer import WirePeer, message

from reput_client.remoting import (
    Command,
    QueueOf,
    RequestCode,
    TopicRouteOf,
    encode_frame,
)
from reput_server import CertificateError, Limits

QUEUE = QueueOf(topic="orders", queue_id=0)


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def encrypted(address, context, **options):
    """A peer whose connection is encrypted."""
    peer = WirePeer(address, **options)
    try:
        peer.socket = context.wrap_socket(peer.socket, server_hostname=address[0])
    except BaseException:
        peer.socket.close()
        raise
    return peer


def test_a_permissive_port_answers_both_kinds(serve, files):
    served = serve(tls=files.tls())
    for address, code, header in (
        (served.server.address, RequestCode.GET_MIN_OFFSET, QUEUE),
        (served.server.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteOf(topic="t")),
    ):
        with WirePeer(address) as plain, encrypted(address, files.context()) as secret:
            assert plain.ask(code, header).code == secret.ask(code, header).code
            assert secret.socket.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("mode", ["disabled", None])
def test_a_port_without_encryption_closes_what_is_encrypted(serve, files, mode):
    served = serve(tls=None if mode is None else files.tls(mode=mode))

    with pytest.raises((ssl.SSLError, ConnectionError)):
        encrypted(served.server.address, files.context())

    assert served.peer().ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_large_messages_come_whole_in_both_versions(serve, files, version):
    served = serve(tls=files.tls())
    context = files.context()
    context.minimum_version = context.maximum_version = version
    body = bytes(range(256)) * 4_000
    with encrypted(served.server.address, context) as peer:
        for _ in range(3):
            assert peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=body).code == 0
        served.store.wait_dispatched()
        found = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(max_msg_bytes=8 << 20))

    assert found.code == 0
    assert found.body.count(body) == 3


def test_an_old_version_is_not_spoken(serve, files):
    served = serve(tls=files.tls())
    context = files.context()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")

    with pytest.raises((ssl.SSLError, ConnectionError)):
        encrypted(served.server.address, context)


def test_who_must_show_a_certificate_is_told_what_is_wrong(serve, files, caplog):
    served = serve(tls=files.tls(mode="enforcing", client_ca=files.client_ca))
    address = served.server.address
    with encrypted(address, files.context(files.client)) as known:
        assert known.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == 0

    for shown in (None, files.untrusted):
        # With TLS 1.3 the client believes itself connected until it reads.
        with (
            encrypted(address, files.context(shown)) as peer,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            peer.ask(RequestCode.GET_MIN_OFFSET, QUEUE)
    said = [record.getMessage().partition("error=")[2] for record in caplog.records]
    assert said == ["peer did not return a certificate", "certificate verify failed"]


def test_a_certificate_that_expires_ends_no_connection_and_lets_in_no_other(serve, files, tmp_path):
    authority, mode = trustme.CA(), {"mode": "enforcing", "client_ca": str(tmp_path / "ca.pem")}
    authority.cert_pem.write_to_path(mode["client_ca"])
    shown = []
    ends = dt.datetime.now(dt.UTC)
    for name, left in (("valid", 1), ("expired", -1)):
        leaf = authority.issue_cert(
            "client@example.org",
            not_before=ends - dt.timedelta(days=2),
            not_after=ends + dt.timedelta(days=left),
        )
        shown.append(str(tmp_path / name))
        leaf.private_key_and_cert_chain_pem.write_to_path(shown[-1])
    address = serve(tls=files.tls(**mode)).server.address

    with encrypted(address, files.context(shown[0])) as connected:
        assert connected.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == 0
        with (
            encrypted(address, files.context(shown[1])) as late,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            late.ask(RequestCode.GET_MIN_OFFSET, QUEUE)
        assert connected.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == 0


def test_garbage_behind_the_first_byte_closes_its_connection_alone(serve, files):
    served = serve(tls=files.tls())
    with encrypted(served.server.address, files.context()) as good:
        for garbage in (b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" + bytes(70_000)):
            bad = served.peer()
            bad.socket.sendall(garbage)
            bad.socket.shutdown(socket.SHUT_WR)
            assert drained(bad)
        assert good.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == 0
    assert served.server.service.held_bytes == 0


def drained(peer):
    """Whether the server closes the connection, whatever it says first."""
    try:
        while peer.socket.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def test_one_that_says_nothing_counts_and_is_closed_when_idle(serve, files):
    served = serve(tls=files.tls(), limits=Limits(connections=1))
    service = served.server.service
    silent = served.peer()
    silent.socket.sendall(b"\x16\x03\x01")  # the beginning of an agreement that never comes
    assert served.peer().is_closed()

    served.on_loop(lambda: service.close_idle(service.loop.time() + 121))

    assert drained(silent)
    assert service.peers == set()


def test_one_that_never_reads_is_cut(serve, files):
    served = serve(tls=files.tls(), limits=Limits(unread_bytes=1 << 20, requests_per_peer=16))
    with encrypted(served.server.address, files.context()) as deaf:
        body = bytes(800_000)
        for _ in range(4):
            deaf.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=body)
        served.store.wait_dispatched()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            pull_for_ever(deaf)

    assert served.peer().ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == 0


def pull_for_ever(deaf):
    pull = wirescript.pull(max_msg_bytes=8 << 20)
    frames = encode_frame(Command.request(RequestCode.PULL_MESSAGE, pull)) * 200
    for _ in range(10_000):
        deaf.socket.sendall(frames)


def test_many_encrypted_connections_at_once_are_all_served(serve, files):
    served = serve(tls=files.tls())
    codes = []

    def ask():
        with encrypted(served.server.address, files.context()) as peer:
            for number in range(5):
                sent = peer.ask(RequestCode.SEND_MESSAGE_V2, message("t"), body=b"%d" % number)
                codes.append(sent.code)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert codes == [0] * 100


def test_files_that_cannot_be_used_are_named_with_what_to_do(serve, files, tmp_path):
    letter = tmp_path / "letter.pem"
    letter.write_text("dear certificate")
    locked = tmp_path / "locked.pem"
    locked.write_bytes(locked_key(Path(files.key).read_bytes()))
    for options, path, said in (
        ({"certificate": str(tmp_path / "none")}, tmp_path / "none", "No such file"),
        ({"certificate": str(letter)}, letter, "no certificate"),
        ({"key": str(letter)}, letter, "no private key"),
        ({"key": files.client}, files.client, "the key is not that of the certificate"),
        ({"key": str(locked)}, locked, "openssl pkey -in"),
        ({"client_ca": str(letter)}, letter, "name a PEM file of CA certificates"),
    ):
        with pytest.raises(CertificateError, match=said) as error:
            serve_again(serve, files.tls(**options))
        assert error.value.path == str(path)


def serve_again(serve, tls):
    from reput_server import ServerConfig, serving

    config = ServerConfig(listen=None, name_server=("127.0.0.1", 0), tls=tls)
    with serving(None, config):
        pass


def locked_key(pem):
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )

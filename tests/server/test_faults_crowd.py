"""A thousand clients at once, and a process that runs out of descriptors."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
import wirescript
from wirepeer import WirePeer, message

from reput_client.remoting import (
    Command,
    GroupOf,
    QueueOf,
    RequestCode,
    ResponseCode,
    encode_frame,
)
from reput_testing.casebudget import is_soak

SEND = RequestCode.SEND_MESSAGE_V2
QUEUE = QueueOf(topic="orders", queue_id=0)
BILLING = GroupOf(consumer_group=wirescript.GROUP)


@contextlib.contextmanager
def serving(path, descriptors=None):
    """A process that serves the store at ``path``, with so many descriptors at most."""

    def limit():
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    options = ["--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "reput", "serve", str(path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    host, _, port = json.loads(line)["broker"].rpartition(":")
    process.address = host, int(port)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.errors = process.communicate(timeout=60)[1]


def open_descriptors(process):
    """Sockets that the process has open; how many files is the store's matter."""
    found = 0
    for each in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found += os.readlink(f"/proc/{process.pid}/fd/{each}").startswith("socket:")
    return found


def memory(process):
    """Memory that the process has by now, bytes."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


def requests(number):
    """What a client sends at its beginning: that it is there, a pull that waits, a message."""
    found = [
        Command.request(RequestCode.HEART_BEAT, body=wirescript.heartbeat(f"client-{number}")),
        Command.request(RequestCode.PULL_MESSAGE, wirescript.pull(hold_ms=20_000, queue_id=1)),
        Command.request(SEND, message("orders"), body=b"%d" % number),
    ]
    return b"".join(map(encode_frame, wirescript.numbered(found)))


def answers_of(peer, numbers):
    """Wait for the answers to requests of these numbers; return their codes by number."""
    found = {}
    while not found.keys() >= set(numbers):
        answer = peer.receive()
        if answer.is_response:
            found[answer.opaque] = answer.code
    return found


def come_and_go(process, count):
    """Let ``count`` clients connect, have what they want, and leave; return what was stored.

    On a machine that is busy with other things, a send may be told that the server is busy.
    """
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(WirePeer(process.address, 120)) for _ in range(count)]
        for number, peer in enumerate(peers):
            peer.socket.sendall(requests(number))
        codes = [answers_of(peer, {1, 3}) for peer in peers]  # the second, a pull, still waits
    assert {each[1] for each in codes} == {ResponseCode.SUCCESS}
    sends = [each[3] for each in codes]
    assert set(sends) <= {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}
    return sends.count(ResponseCode.SUCCESS)


def wait_until_gone(process, before):
    """Wait until the server has about as many descriptors as ``before``: few more are its files."""
    deadline, pause = time.monotonic() + 60, threading.Event()
    while open_descriptors(process) > before + 12:
        assert time.monotonic() < deadline, "connections stay"
        pause.wait(0.01)


@pytest.mark.parametrize(
    "count",
    [150, pytest.param(1_000, marks=pytest.mark.skipif(not is_soak(), reason="REPUT_SOAK=1"))],
    ids=["many", "a-thousand"],
)
@pytest.mark.costly
def test_clients_that_come_at_once_are_all_served_and_leave_nothing(tmp_path, count):
    with serving(tmp_path / "store") as process, WirePeer(process.address, 120) as other:
        other.ask(SEND, message("orders", 3), body=b"there is such a topic")
        wait_until_gone(process, open_descriptors(process))
        before, sizes, stored = open_descriptors(process), [], 0
        for _ in range(3):
            stored += come_and_go(process, count)
            wait_until_gone(process, before)
            sizes.append(memory(process))
        offset = other.ask(RequestCode.GET_MAX_OFFSET, QUEUE).fields["offset"]
        left = other.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, BILLING)

    assert int(offset) == stored >= count
    assert left.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert sizes[-1] - sizes[0] < 32 << 20
    assert process.errors == ""


@pytest.mark.costly
def test_a_process_without_descriptors_refuses_connections_and_goes_on_later(tmp_path):
    with serving(tmp_path / "store", descriptors=160) as process:
        with WirePeer(process.address, 60) as first, contextlib.ExitStack() as stack:
            first.ask(SEND, message("orders"), body=b"0")
            peers = [stack.enter_context(WirePeer(process.address, 60)) for _ in range(200)]
            served = [peer for peer in peers if is_served(peer)]
            # The store still opens files: a topic has its own.
            last = first.ask(SEND, message("bills"), body=b"1")
        later = sent_when_there_is_room(process)

    assert 20 < len(served) < 160 - 40
    assert (last.code, later.code) == (ResponseCode.SUCCESS, ResponseCode.SUCCESS)
    assert "refusing connections" in process.errors
    assert "ulimit -n allows more" in process.errors
    assert process.errors.count("\n") < 20
    assert "Traceback" not in process.errors


def sent_when_there_is_room(process):
    """What a client is answered that comes again until the others have gone."""
    for _ in range(10_000):
        with WirePeer(process.address, 60) as peer:
            if is_served(peer):
                return peer.ask(SEND, message("orders"), body=b"2")
    raise AssertionError("nobody is let in any more")


def is_served(peer):
    try:
        return peer.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == ResponseCode.SUCCESS
    except ConnectionError:
        return False

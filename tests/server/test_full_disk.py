"""Sends to a store without room for another log file: each answer says what the log holds."""

from __future__ import annotations

import errno
import os
from collections import Counter
from contextlib import ExitStack

import attrs
import pytest
from wirepeer import WirePeer, message

import reput
from reput.files import Disk
from reput_client.remoting import (
    BatchEntry,
    Command,
    RequestCode,
    ResponseCode,
    encode_batch,
    encode_frame,
)
from reput_server import ServerConfig, serving

pytestmark = pytest.mark.shows("partial-put")

SEND = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE
ANYWHERE = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
LARGE, SMALL = 30_000, 100


class SmallDisk(Disk):
    """Has no room for another file of the log while it is full."""

    is_full = False

    def allocate(self, descriptor, size, start=0):
        if self.is_full and "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, size, start)


@pytest.fixture
def disk():
    return SmallDisk()


@pytest.fixture
def served(tmp_path, disk, flush):
    """A store whose disk is full after its first file, and a connection to its server."""
    log = {"file_size": 1 << 20, "flush": flush}
    plugins = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
    with ExitStack() as stack:
        store = stack.enter_context(
            reput.open(
                tmp_path / "store",
                plugins=plugins,
                disk=disk,
                config={"commitlog": log, "consumequeue": {"units_per_file": 1_000}},
            )
        )
        server = stack.enter_context(serving(store, ANYWHERE))
        peer = stack.enter_context(WirePeer(server.address))
        first = peer.ask(SEND, message("orders"), body=b"first")
        assert first.code == ResponseCode.SUCCESS
        disk.is_full = True
        yield store, peer
        disk.is_full = False


def ask_together(peer, commands):
    """The answers to requests that come in one piece, in their order."""
    numbered = [attrs.evolve(each, opaque=1_000 + at) for at, each in enumerate(commands)]
    peer.socket.sendall(b"".join(map(encode_frame, numbered)))
    answers = {answer.opaque: answer for answer in (peer.receive() for _ in numbered)}
    return [answers[each.opaque] for each in numbered]


def send(number, size):
    return Command.request(SEND, message("orders"), body=b"%04d" % number + bytes(size))


def batch(numbers, size):
    body = encode_batch([BatchEntry(b"%04d" % number + bytes(size)) for number in numbers])
    return Command.request(BATCH, message("orders", batch=True), body=body)


def stored(store):
    """How often each number is in the log."""
    found = [bytes(body) for each in store.log.scan() for body in each.body.as_bytes()]
    return Counter(int(body[:4]) for body in found if body != b"first")


def places(store):
    """The number of each stored message, by physical offset."""
    return {
        view.physical_offset: int(bytes(view.body)[:4])
        for each in store.log.scan()
        for view in (each.message(row) for row in range(len(each)))
        if view.body != b"first"
    }


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_each_send_is_stored_once_and_acknowledged_or_not_stored(served):
    store, peer = served
    sizes = [LARGE] * 40 + [SMALL] * 20

    answers = ask_together(peer, [send(number, size) for number, size in enumerate(sizes)])

    acknowledged = {at for at, each in enumerate(answers) if each.code == ResponseCode.SUCCESS}
    assert stored(store) == Counter(acknowledged)
    assert 0 < len(acknowledged) < len(sizes)
    assert {59} <= acknowledged  # small ones still fit
    by_place = places(store)
    for at in acknowledged:
        assert by_place[int(answers[at].fields["msgId"][-16:], 16)] == at


@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.parametrize("count", [1, 8])
def test_a_batch_is_stored_as_a_whole_or_not_at_all(served, count):
    store, peer = served
    numbers = [range(at * 10, at * 10 + 10) for at in range(8)]
    commands = [batch(each, LARGE // 3) for each in numbers]

    answers = []
    for at in range(0, len(commands), count):
        answers += ask_together(peer, commands[at : at + count])
    more = ask_together(peer, [batch(range(at, at + 10), LARGE // 3) for at in range(80, 160, 10)])
    answers += more

    codes = [each.code for each in answers]
    whole = {
        number
        for at, code in enumerate(codes)
        if code == ResponseCode.SUCCESS
        for number in range(at * 10, at * 10 + 10)
    }
    assert stored(store) == Counter(whole)
    assert set(codes) == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR}
    assert "the log needs this file next" in answers[-1].remark


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_batches_and_single_sends_come_together(served):
    store, peer = served
    commands, numbers = [], []
    for at in range(0, 120, 6):
        commands += [batch(range(at, at + 4), LARGE // 2), send(at + 4, LARGE), send(at + 5, SMALL)]
        numbers += [range(at, at + 4), [at + 4], [at + 5]]

    answers = ask_together(peer, commands)

    acknowledged = Counter()
    for each, sent in zip(answers, numbers, strict=True):
        if each.code == ResponseCode.SUCCESS:
            acknowledged.update(sent)
    assert stored(store) == acknowledged
    assert 0 < sum(acknowledged.values()) < 120


@pytest.mark.parametrize("flush", ["async"])
def test_a_batch_that_no_log_file_has_room_for_is_refused(served, disk):
    store, peer = served
    disk.is_full = False

    answer = peer.ask(BATCH, message("orders", batch=True), body=batch(range(40), LARGE).body)

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "as a whole" in answer.remark
    assert stored(store) == Counter()

"""Sends that wait for the disk: taken from bytes with compiled kernels, and answered together."""

from __future__ import annotations

import asyncio
import select
import socket
import threading

import attrs
import pytest
from sendlanes import USUAL
from wirepeer import message

from reput.engine import ENGINE
from reput.errors import ServiceNotAvailableError
from reput_remoting import (
    BatchEntry,
    Command,
    FrameReader,
    RequestCode,
    ResponseCode,
    encode_batch,
    encode_frame,
)
from reput_server.broker.sending.durable import DurableAnswers, Kept
from reput_server.broker.statistics.times import PutTimes
from reput_server.wire import sharing as sharing_module
from reput_server.wire.peer import _SHARED_AFTER

SEND = RequestCode.SEND_MESSAGE_V2
COMPILED = pytest.mark.skipif(ENGINE.name == "python", reason="puts in steps wait for the disk")


def ordinary(opaque=7, body=b"body", **changed):
    return encode_frame(Command(SEND, {**USUAL, **changed}, body, opaque))


@pytest.fixture
def durable(serve):
    """A server whose answers wait for the disk, with a topic."""
    served = serve(sections={"commitlog": {"flush": "sync"}})
    served.server.broker.sends.clock = lambda: 0.0  # no put is slow
    assert served.peer().ask(SEND, message("orders"), body=b"").code == ResponseCode.SUCCESS
    return served


def counts(served):
    """What the server counts of requests that have not ended."""
    service, found = served.server.service, []
    served.on_loop(
        lambda: found.extend(
            [service._taken_count, service.request_bytes, served.server.broker.durable.count]
        )
    )
    return found


def taken_from_bytes(served):
    """How many sends were taken from bytes, in a list that grows."""
    service, found = served.server.service, []
    direct, pulls = service._handlers.from_bytes

    def noted(peer, data):
        taken = direct(peer, data)
        if taken[2]:
            found.append(taken[2])
        return taken

    service._handlers = attrs.evolve(service._handlers, from_bytes=(noted, pulls))
    return found


@pytest.fixture
def disk(durable, monkeypatch):
    """Waits for the disk, which a test may hold up or let fail."""
    return Disk(durable)


class Disk:
    """Stands between the server and the store's waits."""

    def __init__(self, served):
        self.let_go, self.begun = threading.Event(), threading.Event()
        self.let_go.set()
        self.error = None
        self.is_late = False
        self.offsets = []
        durable = served.server.broker.durable
        real = durable.wait_flushed

        def wait_flushed(end_offset, seconds):
            self.begun.set()
            assert self.let_go.wait(60)
            self.offsets.append(end_offset)
            if self.error is not None:
                raise self.error
            return not self.is_late and real(end_offset, seconds)

        durable.wait_flushed = wait_flushed


@COMPILED
def test_answers_come_when_messages_are_on_disk(durable, disk):
    taken, peer = taken_from_bytes(durable), durable.peer()
    disk.let_go.clear()
    peer.socket.sendall(b"".join(ordinary(at, b"%d" % at) for at in range(5)))
    assert disk.begun.wait(20)
    peer.socket.sendall(b"".join(ordinary(at, b"%d" % at) for at in range(5, 9)))
    durable.wait_until(lambda: sum(taken) == 9)
    assert counts(durable)[0] == counts(durable)[2] == 9
    assert counts(durable)[1] > 0
    # Nothing else waits.
    assert durable.peer().ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS

    disk.let_go.set()
    answers = [peer.receive() for _ in range(9)]

    assert [each.opaque for each in answers] == list(range(9))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    last = int(answers[-1].fields["msgId"][-16:], 16)
    assert disk.offsets[-1] > last
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]
    assert durable.store.wait_dispatched(timeout=20)
    found = [each.body for each in durable.store.read("orders", 0, 1, 100)]
    assert found == [b"%d" % at for at in range(9)]


def test_a_disk_that_is_late_or_fails_is_answered_as_for_other_sends(durable, disk):
    peer = durable.peer()
    disk.is_late = True
    peer.socket.sendall(ordinary(1))
    late = peer.receive()
    disk.error = ServiceNotAvailableError("log", "closed", None, "the log is not writable")
    peer.socket.sendall(ordinary(2) + ordinary(3))
    failed = [peer.receive() for _ in range(2)]

    assert (late.opaque, late.code) == (1, ResponseCode.FLUSH_DISK_TIMEOUT)
    assert "not on disk after" in late.remark
    assert late.fields["queueOffset"] == "1"
    assert [each.opaque for each in failed] == [2, 3]
    assert {each.code for each in failed} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert "the log is not writable" in failed[0].remark
    assert "msgId" not in failed[0].fields
    assert durable.server.broker.sends.times.failed_count == 2
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


def test_a_connection_that_closes_meanwhile_leaves_nothing(durable, disk):
    peer = durable.peer()
    disk.let_go.clear()
    peer.socket.sendall(ordinary(1) + ordinary(2))
    assert disk.begun.wait(20)
    before = len(durable.server.service.peers)
    peer.socket.close()
    durable.wait_until(lambda: len(durable.server.service.peers) < before)

    disk.let_go.set()

    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


def test_a_server_that_stops_answers_first(durable, disk):
    peer, service = durable.peer(), durable.server.service
    disk.let_go.clear()
    peer.socket.sendall(ordinary(1))
    assert disk.begun.wait(20)

    stopped = asyncio.run_coroutine_threadsafe(service.stop(), service.loop)
    durable.wait_until(lambda: service.is_stopping)
    disk.let_go.set()

    assert peer.receive().code == ResponseCode.SUCCESS
    stopped.result(20)


@pytest.fixture
def sharing(durable, disk):
    """Connections that are read together; their last answers came when messages were on disk."""
    peers = [durable.peer() for _ in range(3)]
    for at in range(2 * _SHARED_AFTER):
        for peer in peers:
            peer.socket.sendall(ordinary(at))
            assert peer.receive().opaque == at
    assert count_shared(durable) == 3
    disk.begun.clear()
    return peers


def count_shared(served):
    """How many connections are read together."""
    found = []
    served.on_loop(
        lambda: found.append(sum(each._is_shared for each in served.server.service.peers))
    )
    return found[0]


@COMPILED
def test_connections_that_are_read_together_are_answered_when_messages_are_on_disk(
    durable, disk, sharing
):
    before = len(disk.offsets)
    disk.let_go.clear()
    for at, peer in enumerate(sharing):
        peer.socket.sendall(ordinary(at) + ordinary(at + 10))
    assert disk.begun.wait(20)
    durable.wait_until(lambda: durable.server.broker.durable.count == 6)
    assert counts(durable)[0] == 6
    assert counts(durable)[1] > 0
    assert durable.peer().ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS
    assert select.select([peer.socket for peer in sharing], [], [], 0)[0] == []

    disk.let_go.set()
    answers = [peer.receive() for peer in sharing for _ in range(2)]

    assert [each.opaque for each in answers] == [0, 10, 1, 11, 2, 12]
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    assert 1 <= len(disk.offsets) - before <= 3
    last = max(int(each.fields["msgId"][-16:], 16) for each in answers)
    assert disk.offsets[-1] > last
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]
    assert count_shared(durable) == 3


@COMPILED
def test_connections_whose_answers_cannot_be_written_together_are_cut_and_counted_no_more(
    durable, disk, sharing, monkeypatch
):
    other, written = durable.peer(), []

    def fail(answers):
        written.append(len(answers))
        raise MemoryError

    monkeypatch.setattr(sharing_module, "write_sockets", fail)
    disk.let_go.clear()
    for peer in (*sharing, other):
        peer.socket.sendall(ordinary(1))
    durable.wait_until(lambda: durable.server.broker.durable.count == 4)
    disk.let_go.set()

    assert all(peer.is_closed() for peer in sharing)
    assert other.receive().opaque == 1
    assert sum(written) == 3
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


@COMPILED
def test_connections_that_are_read_together_are_told_of_a_disk_that_is_late_or_fails(
    durable, disk, sharing
):
    disk.is_late = True
    sharing[0].socket.sendall(ordinary(1))
    late = sharing[0].receive()
    disk.error = ServiceNotAvailableError("log", "closed", None, "the log is not writable")
    for peer in sharing:
        peer.socket.sendall(ordinary(2))
    failed = [peer.receive() for peer in sharing]

    assert (late.opaque, late.code) == (1, ResponseCode.FLUSH_DISK_TIMEOUT)
    assert {(each.opaque, each.code) for each in failed} == {
        (2, ResponseCode.SERVICE_NOT_AVAILABLE)
    }
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


@COMPILED
def test_a_connection_with_too_many_sends_that_wait_is_read_no_more_until_they_are_answered(
    durable, disk, sharing
):
    most = durable.server.config.limits.requests_per_peer
    sender, *others = sharing
    disk.let_go.clear()
    for at in range(most):
        sender.socket.sendall(ordinary(at))
    (peer,) = (
        each for each in durable.server.service.peers if each.address == sender.socket.getsockname()
    )
    durable.wait_until(lambda: peer._request_count == most)
    for at in range(most, most + 50):
        sender.socket.sendall(ordinary(at))
    durable.wait_until(lambda: peer._is_reading_paused)
    assert not peer._is_shared
    assert peer._request_count == most
    assert count_shared(durable) == 2

    disk.let_go.set()
    answers = [sender.receive() for _ in range(most + 50)]

    assert sorted(each.opaque for each in answers) == list(range(most + 50))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    for each in others:
        each.socket.sendall(ordinary(1))
        assert each.receive().opaque == 1
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


@COMPILED
def test_a_connection_that_cannot_be_paused_is_cut_and_others_are_answered(
    durable, disk, sharing, monkeypatch
):
    service, failing = durable.server.service, sharing[0].socket.getsockname()
    real = service.unshare

    def unshare(descriptor):
        real(descriptor)
        if any(
            each.address == failing and each._descriptor == descriptor for each in service.peers
        ):
            raise OSError(28, "no space")

    monkeypatch.setattr(type(service), "unshare", lambda _, descriptor: unshare(descriptor))
    service.limits = attrs.evolve(service.limits, requests_per_peer=2)
    disk.let_go.clear()

    def send():
        for peer in sharing:
            peer.socket.sendall(ordinary(1) + ordinary(2))

    durable.on_loop(send)  # so that all of them are read in one turn
    durable.wait_until(lambda: durable.server.broker.durable.count == 6)
    disk.let_go.set()

    assert sharing[0].is_closed()
    assert [peer.receive().opaque for peer in sharing[1:] for _ in range(2)] == [1, 2, 1, 2]
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


@COMPILED
def test_a_connection_that_is_lost_while_it_is_paused_counts_nothing_later(durable, disk, sharing):
    service, most = durable.server.service, durable.server.config.limits.requests_per_peer
    sender = sharing[0]
    (peer,) = (each for each in service.peers if each.address == sender.socket.getsockname())
    disk.let_go.clear()
    for at in range(most):
        sender.socket.sendall(ordinary(at))
    durable.wait_until(lambda: peer._request_count == most)
    durable.on_loop(lambda: peer.data_received(ordinary(1)[:50]))  # perhaps read before the pause
    assert (peer._is_reading_paused, service.held_bytes) == (True, 50)

    durable.on_loop(peer._transport.abort)
    durable.wait_until(lambda: peer not in service.peers)
    disk.let_go.set()
    durable.wait_until(lambda: not durable.server.broker.durable.count)

    assert counts(durable) == [0, 0, 0]
    assert service.held_bytes == 0


@COMPILED
def test_a_connection_that_closes_while_its_sends_wait_disturbs_none_that_is_read_with_it(
    durable, disk, sharing
):
    disk.let_go.clear()
    for peer in sharing:
        peer.socket.sendall(ordinary(1))
    durable.wait_until(lambda: durable.server.broker.durable.count == 3)
    before = len(durable.server.service.peers)
    sharing[0].socket.close()
    durable.wait_until(lambda: len(durable.server.service.peers) == before - 1)

    disk.let_go.set()

    assert [peer.receive().opaque for peer in sharing[1:]] == [1, 1]
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


@COMPILED
def test_a_server_that_stops_answers_connections_first_that_are_read_together(
    durable, disk, sharing
):
    service = durable.server.service
    disk.let_go.clear()
    for peer in sharing:
        peer.socket.sendall(ordinary(1))
    durable.wait_until(lambda: durable.server.broker.durable.count == 3)

    stopped = asyncio.run_coroutine_threadsafe(service.stop(), service.loop)
    durable.wait_until(lambda: service.is_stopping)
    disk.let_go.set()

    assert {peer.receive().code for peer in sharing} == {ResponseCode.SUCCESS}
    stopped.result(20)


@COMPILED
def test_too_many_that_wait_go_the_way_that_refuses_them(durable, disk):
    taken, peer, config = taken_from_bytes(durable), durable.peer(), durable.server.config
    disk.let_go.clear()
    peer.socket.sendall(ordinary(1))
    assert disk.begun.wait(20)
    durable.server.broker.durable.count += config.limits.waiting_sends
    peer.socket.sendall(ordinary(2))
    refused = peer.receive()
    durable.server.broker.durable.count -= config.limits.waiting_sends

    disk.let_go.set()

    assert (refused.opaque, refused.code) == (2, ResponseCode.SYSTEM_BUSY)
    assert "[OVERLOAD]" in refused.remark
    assert peer.receive().opaque == 1
    assert taken == [1]


@COMPILED
def test_only_what_is_not_stored_yet_keeps_others_from_the_short_way(durable, disk):
    taken, peer = taken_from_bytes(durable), durable.peer()
    peer.socket.sendall(ordinary(1))
    assert peer.receive().opaque == 1
    disk.let_go.clear()
    appender, log = durable.store.log._appender, durable.store.log

    def no_room():
        appender.move_record_limit(appender.end_offset - 1)

    durable.on_loop(no_room)
    end = log.max_physical_offset
    peer.socket.sendall(ordinary(2))
    durable.wait_until(lambda: log.max_physical_offset > end)
    assert (taken, counts(durable)[2]) == ([1], 1)

    peer.socket.sendall(ordinary(3))

    durable.wait_until(lambda: taken == [1, 1])
    assert counts(durable)[2] == 2
    disk.let_go.set()
    assert [peer.receive().opaque for _ in range(2)] == [2, 3]
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


@COMPILED
def test_a_send_by_a_task_keeps_others_from_the_short_way_only_until_it_is_stored(durable, disk):
    taken, peer, log = taken_from_bytes(durable), durable.peer(), durable.store.log
    disk.let_go.clear()
    end = log.max_physical_offset
    unusual = "UNIQ_KEY\x01u\x02DELAY\x011\x02"
    peer.socket.sendall(ordinary(1, i=unusual))
    durable.wait_until(lambda: log.max_physical_offset > end)
    assert disk.begun.wait(20)
    assert counts(durable)[2] == 1

    for opaque in (2, 3):
        peer.socket.sendall(ordinary(opaque))
        durable.wait_until(lambda opaque=opaque: len(taken) == opaque - 1)

    disk.let_go.set()
    assert sorted(peer.receive().opaque for _ in range(3)) == [1, 2, 3]
    durable.wait_until(lambda: not durable.server.broker.durable.count)
    assert counts(durable) == [0, 0, 0]


def test_nobody_waits_for_a_put_that_waits_for_space(durable, monkeypatch):
    begun, let_go, log = threading.Event(), threading.Event(), type(durable.store.log)
    sends, real = durable.server.broker.sends, log.look_ahead

    def slow(self, offset, size):
        begun.set()
        assert let_go.wait(60)
        return real(self, offset, size)

    def no_room():
        appender = durable.store.log._appender
        appender.move_record_limit(appender.end_offset - 1)

    durable.on_loop(no_room)
    monkeypatch.setattr(log, "look_ahead", slow)
    peer, other = durable.peer(), durable.peer()
    try:
        peer.socket.sendall(ordinary(1, b"x" * 1_000))
        assert begun.wait(20)
        assert other.ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS
        peer.socket.sendall(ordinary(2))
        durable.wait_until(lambda: sends.waiting_count)
        sends.clock = lambda: 2.0  # since then two seconds have gone by
        waits = (sends.put_ms, sends.head_wait_ms)
    finally:
        let_go.set()

    assert waits == (2_000, 2_000)
    assert [peer.receive().opaque for _ in range(2)] == [1, 2]
    durable.wait_until(lambda: not sends.waiting_count)
    assert (sends.put_ms, sends.head_wait_ms) == (0, 0)


def test_sends_that_wait_for_the_disk_are_counted_with_how_long_they_have_waited(durable, disk):
    sends, peer = durable.server.broker.sends, durable.peer()
    disk.let_go.clear()
    peer.socket.sendall(ordinary(1))
    assert disk.begun.wait(20)
    peer.socket.sendall(ordinary(2))
    durable.wait_until(lambda: sends.waiting_count == 2)
    sends.clock = lambda: 3.0

    found = (sends.put_ms, sends.head_wait_ms)
    disk.let_go.set()

    assert found == (3_000, 3_000)
    assert [peer.receive().opaque for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("code", [SEND, RequestCode.SEND_BATCH_MESSAGE])
def test_what_goes_by_a_task_is_stored_at_once_and_answered_when_it_is_on_disk(durable, disk, code):
    peer, log = durable.peer(), durable.store.log
    disk.let_go.clear()
    end = log.max_physical_offset
    body = encode_batch([BatchEntry(body=b"x"), BatchEntry(body=b"y")]) if code != SEND else b"x"
    header = message("orders", properties="DELAY\x010\x02UNIQ_KEY\x01u\x02")
    sent = peer.send(Command.request(code, header, body=body))
    durable.wait_until(lambda: log.max_physical_offset > end)
    assert disk.begun.wait(20)
    assert counts(durable)[2] == 1
    # Whoever asks something else is answered meanwhile.
    assert durable.peer().ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS

    disk.error = ServiceNotAvailableError("log", "closed", None, "the log is not writable")
    disk.let_go.set()

    answer = peer.answer_to(sent)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the log is not writable" in answer.remark


# --------------------------------------------------------------------------- rounds


class Peer:
    """Counts what a connection is told."""

    direct_descriptor = -1

    def __init__(self):
        self.held = self.released = 0
        self.answers = b""

    def hold(self, count, size):
        self.held += count

    def write(self, answers):
        self.answers += answers

    def release(self, count, size):
        self.released += count


class Rounds:
    """An executor that ends a flush when it is told so; on the loop's own thread."""

    def __init__(self):
        self.waiting = []

    def submit(self, work, *arguments):
        from concurrent.futures import Future

        future = Future()
        self.waiting.append((future, work, arguments))
        return future

    def end(self):
        future, work, arguments = self.waiting.pop(0)
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def made(loop, rounds, now=(0.0,)):
    flushed = []

    def wait_flushed(end_offset, seconds):
        flushed.append((end_offset, seconds))
        return True

    times = PutTimes()
    answers = DurableAnswers(loop, rounds, lambda: 100, wait_flushed, 5_000, times, lambda: now[0])
    return answers, flushed


def run(work):
    with asyncio.Runner() as runner:
        runner.run(work())


def test_a_lone_send_is_flushed_at_once_and_what_comes_meanwhile_goes_together():
    async def work():
        rounds, peers = Rounds(), [Peer() for _ in range(4)]
        answers, flushed = made(asyncio.get_running_loop(), rounds)
        answers.keep([Kept(peers[0], 1, 10, b"a")], 0.0)
        await settle()
        for peer in peers[1:]:
            answers.keep([Kept(peer, 2, 10, b"bc")], 0.0)
        await settle()
        assert len(rounds.waiting) == 1

        rounds.end()
        await settle()

        assert peers[0].answers == b"a"
        assert len(rounds.waiting) == 1  # of all others
        rounds.end()
        await settle()
        assert [each.answers for each in peers] == [b"a", b"bc", b"bc", b"bc"]
        assert [each.released for each in peers] == [each.held for each in peers] == [1, 2, 2, 2]
        assert flushed == [(100, 5.0)] * 2
        assert not rounds.waiting

    run(work)


def test_sends_of_a_round_are_told_when_they_are_on_disk_and_an_error_in_one_disturbs_no_other():
    async def work():
        rounds, peer, told = Rounds(), Peer(), []
        answers, flushed = made(asyncio.get_running_loop(), rounds)

        def fail(error):
            raise RuntimeError("not this one")

        answers.keep([Kept(peer, 1, 10, b"a")], 0.0)
        answers.hold(2, fail)
        answers.hold(3, told.append)
        assert answers.count == 6
        await settle()
        assert not told
        rounds.end()
        await settle()

        assert (told, peer.answers, answers.count) == ([None], b"a", 0)
        assert len(flushed) == 1
        assert not rounds.waiting

    run(work)


def test_a_flush_waits_for_as_many_sends_as_the_last_one_covered_but_not_long():
    async def work():
        loop, rounds, peers = asyncio.get_running_loop(), Rounds(), [Peer() for _ in range(3)]
        now = [0.0]
        answers, _ = made(loop, rounds, now)
        for peer in peers:
            answers.keep([Kept(peer, 1, 10, b"a")], 0.0)
        await settle()
        now[0] = 0.01
        assert answers.waited_ms(now[0]) == 10
        rounds.end()
        await settle()
        assert not rounds.waiting
        for peer in peers[:2]:
            answers.keep([Kept(peer, 1, 10, b"b")], 0.0)
        await settle()
        assert not rounds.waiting  # the third one may come

        answers.keep([Kept(peers[2], 1, 10, b"b")], 0.0)
        await settle()

        assert len(rounds.waiting) == 1
        now[0] = 0.02
        rounds.end()
        await settle()
        answers.keep([Kept(peers[0], 1, 10, b"c")], 0.0)
        while not rounds.waiting:  # the others do not come
            await asyncio.sleep(0)
        rounds.end()
        await settle()
        assert [each.answers for each in peers] == [b"abc", b"ab", b"ab"]
        answers.keep([Kept(peers[0], 1, 10, b"d")], 0.0)
        await settle()
        assert len(rounds.waiting) == 1  # alone by now

    run(work)


def test_on_a_fast_disk_no_flush_waits():
    async def work():
        rounds, peers = Rounds(), [Peer() for _ in range(3)]
        answers, _ = made(asyncio.get_running_loop(), rounds)
        for peer in peers:
            answers.keep([Kept(peer, 1, 10, b"a")], 0.0)
        await settle()
        rounds.end()
        await settle()

        answers.keep([Kept(peers[0], 1, 10, b"b")], 0.0)
        await settle()

        assert len(rounds.waiting) == 1

    run(work)


def test_answers_that_a_system_does_not_take_at_once_are_written_by_their_connections():
    async def work():
        pairs = [socket.socketpair() for _ in range(3)]
        rounds, peers = Rounds(), [Peer() for _ in range(4)]
        answers, _ = made(asyncio.get_running_loop(), rounds)
        data = b"x" * (4 << 20)  # more than a pair of sockets takes
        for (ours, _), peer in zip(pairs, peers, strict=False):
            ours.setblocking(False)
            peer.direct_descriptor = ours.fileno()
        pairs[2][1].close()
        for peer, frames in zip(peers, [data, b"small", b"gone", b"by its transport"], strict=True):
            answers.keep([Kept(peer, 1, 10, frames)], 0.0)
        await settle()
        rounds.end()
        await settle()

        taken = pairs[0][1].recv(len(data), socket.MSG_DONTWAIT)
        while len(taken) + len(peers[0].answers) < len(data):
            taken += pairs[0][1].recv(len(data), socket.MSG_DONTWAIT)
        assert taken + peers[0].answers == data
        assert 0 < len(peers[0].answers) < len(data)
        assert (pairs[1][1].recv(100), peers[1].answers) == (b"small", b"")
        assert [each.answers for each in peers[2:]] == [b"gone", b"by its transport"]
        assert [each.released for each in peers] == [1] * 4
        for each in (end for pair in pairs for end in pair):
            each.close()

    run(work)


def test_a_connection_is_released_once_for_all_of_a_flush():
    async def work():
        rounds, peer, released = Rounds(), Peer(), []
        answers, _ = made(asyncio.get_running_loop(), rounds)
        peer.release = lambda count, size: released.append((count, size))
        for number in range(5):
            answers.keep([Kept(peer, number, 10, b"%d" % number)], 0.0)
        await settle()
        rounds.end()
        await settle()

        assert (peer.answers, released) == (b"01234", [(10, 50)])

    run(work)


def test_a_connection_that_fails_or_sends_again_disturbs_no_other():
    async def work():
        rounds, peers = Rounds(), [Peer() for _ in range(3)]
        answers, _ = made(asyncio.get_running_loop(), rounds)

        class Failing(Peer):
            def write(self, answers):
                raise RuntimeError("not this one")

            def cut(self, reason):
                self.is_cut = True

        class Again(Peer):
            def release(self, count, size):
                super().release(count, size)
                if len(self.answers) < 3:
                    answers.keep([Kept(self, 1, 10, b"b")], 0.0)

        peers[0], peers[1] = Failing(), Again()
        for peer in peers:
            answers.keep([Kept(peer, 1, 10, b"a")], 0.0)
        for _ in range(4):
            await settle()
            assert len(rounds.waiting) <= 1
            if rounds.waiting:
                rounds.end()
        await settle()

        assert peers[0].is_cut
        assert [each.answers for each in peers[1:]] == [b"abb", b"a"]
        assert answers.count == 0

    run(work)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
def test_a_flush_that_ends_in_any_error_is_never_a_success(error):
    async def work():
        class Ending(Rounds):
            def end(self):
                future, *_ = self.waiting.pop(0)
                future.set_exception(error)

        rounds, peer = Ending(), Peer()
        answers, _ = made(asyncio.get_running_loop(), rounds)
        frame = encode_frame(Command(0, {"msgId": "A"}, b"", 7, 1))
        answers.keep([Kept(peer, 1, 10, frame)], 0.0)
        await settle()
        rounds.end()
        await settle()

        reader = FrameReader()
        reader.feed(peer.answers)
        answer = reader.next_command()
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "msgId" not in answer.fields

    run(work)


def test_the_lane_of_python_takes_no_durable_sends(durable, monkeypatch):
    from reput_server.broker.sending import direct
    from reput_server.broker.sending.lane import SendLane

    monkeypatch.setattr(direct, "send_lane", SendLane)
    service, taken = durable.server.service, []
    service._handlers.from_bytes[0].__self__._made_of = ()  # another lane is made
    durable.on_loop(lambda: taken.append(service.take_bytes(None, ordinary())))

    assert taken == [(b"", 0, 0)]


def test_without_a_thread_sends_are_told_that_they_may_not_be_on_disk():
    class Full:
        def submit(self, work, *arguments):
            raise RuntimeError("can't start new thread")

    async def work():
        peer = Peer()
        answers, _ = made(asyncio.get_running_loop(), Full())
        frame = encode_frame(Command(0, {"msgId": "A"}, b"", 7, 1))
        answers.keep([Kept(peer, 1, 10, frame)], 0.0)
        await settle()

        reader = FrameReader()
        reader.feed(peer.answers)
        answer = reader.next_command()
        assert (answer.opaque, answer.code) == (7, ResponseCode.FLUSH_DISK_TIMEOUT)
        assert answer.fields["msgId"] == "A"
        assert "no thread" in answer.remark
        assert (peer.released, answers.count) == (1, 0)

    run(work)

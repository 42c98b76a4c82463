"""`DurableAnswers`: what one flush covers, and who is told what when it ends."""

from __future__ import annotations

import asyncio
import socket
import types

import pytest

from reput_aio import FlushWaiters
from reput_client.remoting import Command, FrameReader, ResponseCode, encode_frame
from reput_server.broker.send.durableanswers import DurableAnswers, Kept
from reput_server.broker.statistics.latencies import PutTimes


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
    """Flushes that end when they are told so."""

    def __init__(self):
        self.waiting = []
        self.flushed = []

    def begin(self, end_offset, limit):
        self.flushed.append(end_offset)
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def end(self, error=None):
        future = self.waiting.pop(0)
        if error is None:
            future.set_result(True)
        else:
            future.set_exception(error)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def made(loop, rounds, now=(0.0,)):
    return DurableAnswers(loop, rounds, lambda: 100, 5_000, PutTimes(), lambda: now[0])


def run(work):
    with asyncio.Runner() as runner:
        runner.run(work())


def test_a_lone_send_is_flushed_at_once_and_what_comes_meanwhile_goes_together():
    async def work():
        rounds, peers = Rounds(), [Peer() for _ in range(4)]
        answers = made(asyncio.get_running_loop(), rounds)
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
        assert rounds.flushed == [100] * 2
        assert not rounds.waiting

    run(work)


def test_sends_of_a_round_are_told_when_they_are_on_disk_and_an_error_in_one_disturbs_no_other():
    async def work():
        rounds, peer, told = Rounds(), Peer(), []
        answers = made(asyncio.get_running_loop(), rounds)

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
        assert len(rounds.flushed) == 1
        assert not rounds.waiting

    run(work)


def test_a_flush_waits_for_as_many_sends_as_the_last_one_covered_but_not_long():
    async def work():
        loop, rounds, peers = asyncio.get_running_loop(), Rounds(), [Peer() for _ in range(3)]
        now = [0.0]
        # Its timers, too: however slow the machine is, they wait for the time of this test.
        started, loop.time = loop.time(), lambda: started + now[0]
        answers = made(loop, rounds, now)
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
        await settle()
        assert not rounds.waiting
        now[0] = 1.0  # the others do not come
        await settle()
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
        answers = made(asyncio.get_running_loop(), rounds)
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
        answers = made(asyncio.get_running_loop(), rounds)
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
        answers = made(asyncio.get_running_loop(), rounds)
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
        answers = made(asyncio.get_running_loop(), rounds)

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


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_flush_that_ends_in_any_error_is_never_a_success(is_cancelled):
    async def work():
        rounds, peer = Rounds(), Peer()
        answers = made(asyncio.get_running_loop(), rounds)
        frame = encode_frame(Command(0, {"msgId": "A"}, b"", 7, 1))
        answers.keep([Kept(peer, 1, 10, frame)], 0.0)
        await settle()
        if is_cancelled:
            rounds.waiting.pop(0).cancel()
        else:
            rounds.end(ValueError("any"))
        await settle()

        reader = FrameReader()
        reader.feed(peer.answers)
        answer = reader.next_command()
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "msgId" not in answer.fields

    run(work)


def test_without_a_thread_sends_are_told_that_they_may_not_be_on_disk(monkeypatch):
    def start_thread(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("reput_aio.flushwaiters.start_thread", start_thread)

    async def work():
        loop, peer = asyncio.get_running_loop(), Peer()
        log = types.SimpleNamespace(
            flusher=types.SimpleNamespace(requests=lambda: None, request=None)
        )
        answers = made(loop, FlushWaiters(log, loop))
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

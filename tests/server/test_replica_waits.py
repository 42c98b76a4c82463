"""Answers that wait for replicas: who is counted, when they are given, and with which code."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

import reput
from reput.errors import ServiceNotAvailableError
from reput_aio import FlushWaiters
from reput_client.remoting import ResponseCode
from reput_server import ServerConfig
from reput_server.broker.liveoptions import LiveOptions
from reput_server.broker.send.durableanswers import DurableAnswers
from reput_server.broker.send.roundput import RoundPut
from reput_server.broker.send.sendbatcher import SendBatcher
from reput_server.broker.statistics.latencies import PutTimes
from reput_server.errors import Refusal
from reput_server.replication.replicaacks import GAP_MAX, ReplicaAcks


class FakeLoop:
    """A clock that stands, and the calls that are due at a time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = []

    def time(self) -> float:
        return self.now

    def call_at(self, when, call):
        self.calls.append((when, call))
        return self

    def move(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.calls if each[0] <= self.now]
        self.calls = [each for each in self.calls if each[0] > self.now]
        for _, call in due:
            call()


class Waits:
    """Waits for reports that a test makes; `given` are the answers, in their order."""

    def __init__(self, *reports: int, needed: int = 1) -> None:
        self.reports = list(reports)
        self.given = []
        self.loop = FakeLoop()
        self.begun_count = 0
        self.held_when_begun = []
        self.waits = ReplicaAcks(needed, 3.0, self.loop, lambda: self.reports, self._begin)

    def _begin(self) -> None:
        self.begun_count += 1
        self.held_when_begun.append(self.waits.held_count)

    def hold(self, end_offset: int) -> None:
        self.waits.hold(end_offset, lambda late: self.given.append((end_offset, late)))

    def codes(self) -> list[tuple[int, int]]:
        return [(end, 0 if late is None else late.code) for end, late in self.given]


def test_an_answer_is_given_when_enough_replicas_report_its_message():
    found = Waits(0, 0, 0, needed=2)
    found.hold(100)
    found.hold(200)

    for reports, expected in [
        ([200, 99, 0], []),
        ([200, 100, 0], [(100, 0)]),
        ([0, 200, 199], [(100, 0)]),
        ([0, 200, 200], [(100, 0), (200, 0)]),
    ]:
        found.reports[:] = reports
        found.waits.advance()
        assert found.codes() == expected
    assert found.begun_count == 2
    assert found.waits.held_count == 0


def test_what_is_stored_is_sent_when_its_answer_is_counted():
    found = Waits(0)

    found.hold(100)
    found.hold(200)

    assert found.held_when_begun == [1, 2]  # while any is held, flushes do not pause


def test_what_replicas_have_already_is_answered_at_once():
    found = Waits(100)

    found.hold(100)

    assert found.given == [(100, None)]


@pytest.mark.parametrize("reports", [(), (-1,), (-(1 << 50),), (50,)])
def test_without_enough_replicas_the_answer_is_given_at_once(reports):
    found = Waits(*reports, needed=2)

    found.hold(100)

    assert found.codes() == [(100, ResponseCode.SLAVE_NOT_AVAILABLE)]
    assert "of 2 replicas that are asked for" in found.given[0][1].text
    assert found.begun_count == 1  # those that are there get it all the same


def test_a_replica_that_is_far_behind_does_not_count():
    found = Waits(1_000)

    found.hold(1_000 + GAP_MAX)
    found.hold(1_000 + GAP_MAX - 1)

    assert found.codes() == [(1_000 + GAP_MAX, ResponseCode.SLAVE_NOT_AVAILABLE)]
    assert found.waits.held_count == 1


def test_the_time_of_each_answer_is_its_own():
    found = Waits(0)
    found.hold(100)
    found.loop.move(2.0)
    found.hold(200)

    found.loop.move(0.99)
    assert found.given == []
    found.loop.move(0.01)
    assert found.codes() == [(100, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
    found.loop.move(2.0)
    assert found.codes()[1:] == [(200, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
    assert found.loop.calls == []
    assert found.waits.timeout_count == 2


def test_at_the_end_nobody_waits_any_longer():
    found = Waits(0)
    found.hold(100)

    found.waits.give_up()

    assert found.codes() == [(100, ResponseCode.FLUSH_SLAVE_TIMEOUT)]


# --------------------------------------------------------------------------- a store behind it


class Held:
    """Replication that a test ends."""

    def __init__(self) -> None:
        self.held = []

    def hold(self, end_offset, told):
        self.held.append((end_offset, told))


def answers_on_disk(store: reput.Store) -> DurableAnswers:
    loop, log = asyncio.get_running_loop(), store.log
    flushes = FlushWaiters.of(log, loop)
    return DurableAnswers(loop, flushes, lambda: log.max_physical_offset, 5_000, PutTimes())


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_a_send_is_answered_when_replicas_have_it_and_a_refused_one_at_once(tmp_path, flush):
    replication = Held()

    async def run(store: reput.Store, executor: ThreadPoolExecutor):
        loop = asyncio.get_running_loop()
        sends = SendBatcher(
            RoundPut(store.put, store.put_many, lambda: store.log.max_physical_offset),
            loop,
            executor,
            LiveOptions(ServerConfig()),
            durable=answers_on_disk(store) if flush == "sync" else None,
            replication=replication,
        )
        good = asyncio.ensure_future(sends.put([reput.Message("orders", b"x")]))
        while not replication.held:
            await asyncio.sleep(0)
        assert not good.done()
        store.close()
        with pytest.raises(ServiceNotAvailableError):
            await sends.put([reput.Message("orders", b"y")])
        assert not good.done()
        ((end_offset, told),) = replication.held
        told(None)
        return end_offset, await good, sends

    config = {"commitlog": {"file_size": 1 << 20, "flush": flush}}
    with ThreadPoolExecutor(1) as executor:
        store = reput.open(tmp_path, plugins=[], config=config)
        end_offset, stored, sends = asyncio.run(run(store, executor))

    assert stored.late is None
    ((_, physical_offset),) = stored.places
    assert physical_offset < end_offset
    assert (sum(sends.times.answers.counts), sends.times.failed_count) == (2, 1)


class RaisesOnce:
    """Replication, or an executor, that fails with its first call."""

    def __init__(self) -> None:
        self.has_raised = False

    def fail(self) -> None:
        if not self.has_raised:
            self.has_raised = True
            raise RuntimeError("can't start new thread")

    def hold(self, end_offset, told):
        self.fail()
        told(None)


def kept_once(executor: ThreadPoolExecutor) -> None:
    """Have an executor fail as it does when no thread can be started: it keeps the call."""
    once, adjust = RaisesOnce(), executor._adjust_thread_count

    def adjust_or_fail():
        once.fail()
        adjust()

    executor._adjust_thread_count = adjust_or_fail


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_a_round_that_fails_ends_and_the_next_one_is_put(tmp_path, flush):
    async def run(store: reput.Store, executor: ThreadPoolExecutor):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        sends = SendBatcher(
            RoundPut(store.put, store.put_many, None),
            loop,
            executor,
            LiveOptions(ServerConfig()),
            durable=answers_on_disk(store) if flush == "sync" else None,
            replication=RaisesOnce(),
        )
        first = asyncio.ensure_future(sends.put([reput.Message("orders", b"x")]))
        while not sends.replication.has_raised:
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await sends.put([reput.Message("orders", b"y")])
        first.cancel()
        return sends

    config = {"commitlog": {"file_size": 1 << 20, "flush": flush}}
    with (
        ThreadPoolExecutor(1) as executor,
        reput.open(tmp_path, plugins=[], config=config) as store,
    ):
        sends = asyncio.run(run(store, executor))
        assert sends.put_count == 2
        assert sum(map(len, store.scan())) == 2


@pytest.mark.shows("no-thread")
def test_a_send_is_refused_and_not_put_later_if_no_thread_can_be_started(tmp_path):
    async def run(store: reput.Store, executor: ThreadPoolExecutor):
        kept_once(executor)
        sends = SendBatcher(
            RoundPut(store.put, store.put_many, None),
            asyncio.get_running_loop(),
            executor,
            LiveOptions(ServerConfig()),
        )
        sends._slow_until = math.inf  # each round is put on the thread
        async with asyncio.timeout(20):
            with pytest.raises(Refusal, match="can't start new thread") as refused:
                await sends.put([reput.Message("orders", b"x")])
            assert refused.value.code == ResponseCode.SYSTEM_BUSY  # producers send it again
            await sends.put([reput.Message("orders", b"y")])

    config = {"commitlog": {"file_size": 1 << 20, "flush": "sync"}}
    with (
        ThreadPoolExecutor(1) as executor,
        reput.open(tmp_path, plugins=[], config=config) as store,
    ):
        asyncio.run(run(store, executor))
        assert sum(map(len, store.scan())) == 1

"""`LogGrowth`: pulls that wait get what another process writes."""

from __future__ import annotations

import heapq
import itertools

import pytest

from reput_consumer import MessageQueue
from reput_server.broker.pull.loggrowth import LogGrowth
from reput_server.broker.pull.longpolling import HeldPull, PullLongPolling

QUEUE = MessageQueue("orders", "broker-a", 0)


class Clock:
    """The part of an event loop that is needed; its time is that of what is due."""

    def __init__(self):
        self.now = 1_000.0
        self.due = []
        self._number = itertools.count()

    def time(self):
        return self.now

    def call_later(self, seconds, call):
        return self.call_at(self.now + seconds, call)

    def call_at(self, when, call, *arguments):
        timer = Timer(lambda: call(*arguments))
        heapq.heappush(self.due, (when, next(self._number), timer))
        return timer

    def run_for(self, seconds):
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            when, _, timer = heapq.heappop(self.due)
            self.now = max(self.now, when)
            timer.call()
        self.now = max(self.now, end)


class Timer:
    def __init__(self, call):
        self.call = call

    def cancel(self):
        self.call = lambda: None


class Broker:
    """A context, its store, its log and its port in one."""

    is_writable = False

    def __init__(self):
        self.loop = Clock()
        self.store = self.log = self.port = self
        self.end, self.looks = 100, 0
        self.ends = {}
        self.again = []
        """Queue and queue offset of pulls that looked again."""
        self.asked = 0
        self.seconds_each = 0.0
        """How long it takes to look at a queue."""

    @property
    def max_physical_offset(self):
        self.looks += 1
        if self.end is None:
            raise OSError("the disk has failed")
        return self.end

    def bounds(self, queue):
        self.asked += 1
        self.loop.now += self.seconds_each
        return 0, self.ends.get(queue, 0)

    async def run(self, call, *arguments):
        return call(*arguments)


class Peer:
    def remember(self, pull, drop):
        pass

    def forget(self, pull):
        pass


def finish(work):
    """Run a coroutine that waits for nothing."""
    with pytest.raises(StopIteration):
        work.send(None)


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def pulls(broker):
    """Held pulls of a store that another process writes."""
    return PullLongPolling(broker, finish)


def hold(pulls, queue=QUEUE, queue_offset=0, until=1e9):
    async def again():
        pulls.context.again.append((queue, queue_offset))

    pulls.hold(HeldPull(Peer(), queue, queue_offset, until, again))


def put(broker, queue=QUEUE):
    broker.end += 100
    broker.ends[queue] = broker.ends.get(queue, 0) + 1


def test_a_queue_may_get_the_message_later_than_the_log(broker, pulls):
    for late in (2, 20):
        hold(pulls, queue_offset=broker.ends.get(QUEUE, 0))
        broker.end += 100
        broker.loop.run_for(late)
        assert broker.again == []
        broker.ends[QUEUE] = broker.ends.get(QUEUE, 0) + 1
        broker.loop.run_for(0.15 if late < 5 else 5.15)
        assert len(broker.again) == 1
        broker.again.clear()


def test_only_pulls_whose_queue_has_a_message_look_again(broker, pulls):
    other = MessageQueue("orders", "broker-a", 1)
    hold(pulls, other)
    hold(pulls, queue_offset=1)
    hold(pulls, queue_offset=0)
    put(broker)
    broker.loop.run_for(10)

    assert broker.again == [(QUEUE, 0)]
    assert len(pulls) == 2


def test_an_idle_log_costs_a_look_at_its_end(broker, pulls):
    hold(pulls)
    broker.loop.run_for(60)
    looks, asked = broker.looks, broker.asked
    broker.loop.run_for(60)

    assert 500 < broker.looks - looks <= 600
    assert broker.asked - asked <= 12


@pytest.mark.proof
@pytest.mark.parametrize("count", [10, 1_000, 10_000])
@pytest.mark.costly
def test_looks_take_a_tenth_of_the_time_however_many_queues_there_are(broker, pulls, count):
    broker.seconds_each = 0.0001
    for number in range(count):
        hold(pulls, MessageQueue("orders", "broker-a", number))
    began = broker.loop.now
    while broker.loop.now < began + 500:
        broker.end += 100
        broker.loop.run_for(0.1)

    assert 0 < broker.asked * broker.seconds_each <= 0.11 * (broker.loop.now - began) + 5


def test_a_log_that_cannot_be_read_for_a_while_is_looked_at_again(broker, pulls):
    hold(pulls)
    broker.loop.run_for(60)
    end, broker.end = broker.end, None
    broker.loop.run_for(60)
    broker.end = end
    put(broker)
    broker.loop.run_for(0.25)

    assert broker.again == [(QUEUE, 0)]


def test_an_error_that_nobody_expects_does_not_end_the_looks(broker):
    def fail(queue, end):
        raise RuntimeError("not expected")

    def begin(work):
        with pytest.raises((StopIteration, RuntimeError)):
            work.send(None)

    growth = LogGrowth(broker, begin, lambda: {QUEUE: 0}, fail)
    growth.look()
    put(broker)
    broker.loop.run_for(1)

    assert broker.looks > 5


def test_nothing_is_looked_at_while_nobody_waits(broker, pulls):
    hold(pulls, until=1_010.0)
    broker.loop.run_for(60)
    assert not broker.loop.due
    looks = broker.looks

    hold(pulls)
    put(broker)
    broker.loop.run_for(0.25)
    assert len(broker.again) == 2
    assert broker.looks == looks + 1

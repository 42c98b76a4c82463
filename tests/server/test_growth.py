"""`LogGrowth`: pulls that wait look again while another process writes the log."""

from __future__ import annotations

import heapq
import itertools

from reput_server.broker.pulling.growth import LogGrowth


class Clock:
    """The part of an event loop that is needed; its time is that of what is due."""

    def __init__(self):
        self.now = 1_000.0
        self.due = []
        self._number = itertools.count()

    def time(self):
        return self.now

    def call_later(self, seconds, call):
        heapq.heappush(self.due, (self.now + seconds, next(self._number), call))

    def run_until(self, end):
        while self.due and self.due[0][0] <= end:
            self.now, _, call = heapq.heappop(self.due)
            call()
        self.now = end


class Log:
    """A log whose end is looked at; and the context and the store that have it."""

    def __init__(self, loop):
        self.loop = loop
        self.store = self.log = self
        self.end, self.looks = 100, 0

    @property
    def max_physical_offset(self):
        self.looks += 1
        if self.end is None:
            raise OSError("the disk has failed")
        return self.end

    async def run(self, call):
        return call()


def finish(work):
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


class Looking:
    """What looks, and when it told."""

    def __init__(self, waiting=1):
        self.loop = Clock()
        self.log = Log(self.loop)
        self.waiting = waiting
        self.told = []
        self.growth = LogGrowth(
            self.log, finish, lambda: self.told.append(self.loop.now), lambda: self.waiting
        )
        self.growth.look()

    def told_in(self, seconds):
        begin = len(self.told)
        self.loop.run_until(self.loop.now + seconds)
        return len(self.told) - begin


def test_it_tells_soon_and_until_queues_have_the_messages_and_then_no_more():
    looking = Looking()
    looking.told_in(60)
    assert looking.told_in(60) == 0
    looks = looking.log.looks

    looking.log.end += 1
    assert looking.told_in(0.25) >= 1
    assert looking.told_in(4) >= 10
    looking.told_in(2)
    assert looking.told_in(60) == 0
    assert looking.log.looks > looks + 500


def test_a_log_that_cannot_be_looked_at_is_one_that_may_have_grown():
    looking = Looking()
    looking.told_in(60)
    looking.log.end = None
    assert looking.told_in(60) > 500


def test_many_queues_are_looked_at_less_often():
    few, many = Looking(), Looking(waiting=5_000)
    for each in (few, many):
        each.log.end += 1
    assert few.told_in(5.0) > 10 * many.told_in(5.0)
    many.log.end += 1
    assert many.told_in(6.0) == 1


def test_it_looks_only_while_somebody_waits():
    looking = Looking()
    looking.waiting = 0
    looking.told_in(60)
    assert not looking.loop.due
    looks = looking.log.looks

    looking.waiting = 1
    looking.growth.look()
    looking.growth.look()
    looking.log.end += 1
    assert looking.told_in(1) >= 1
    assert looks < looking.log.looks < looks + 12

"""`ProcessQueue` against a plain model: section 7 of the client's specification."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reput_consumer.processqueue import Limits, ProcessQueue


@attrs.frozen
class Sized:
    size: int


class AgainstAModel(RuleBasedStateMachine):
    """The model: two dictionaries, which are sorted whenever an order is asked for."""

    def __init__(self):
        super().__init__()
        self.queue = ProcessQueue()
        self.waiting = {}
        self.taken = {}
        self.newest = -1

    @rule(offsets=st.lists(st.integers(0, 60), unique=True, max_size=6), size=st.integers(0, 99))
    def put(self, offsets, size):
        offsets = sorted(offsets)
        self.queue.put(offsets, [Sized(size) for _ in offsets])
        for offset in offsets:
            if offset not in self.waiting and offset not in self.taken:
                self.waiting[offset] = Sized(size)
                self.newest = max(self.newest, offset)

    @rule(offsets=st.lists(st.integers(0, 60), max_size=6))
    def remove(self, offsets):
        expected = None
        if self.waiting:
            for offset in offsets:
                self.waiting.pop(offset, None)
            expected = min(self.waiting, default=self.newest + 1)

        assert self.queue.remove(offsets) == expected

    @rule(data=st.data())
    def remove_run(self, data):
        """What was put together, of which some may be finished or taken since."""
        known = sorted({*self.waiting, *self.taken, 0})
        start = data.draw(st.integers(0, len(known) - 1))
        run = known[start : start + data.draw(st.integers(1, 5))]
        expected = None
        if self.waiting:
            for offset in run:
                self.waiting.pop(offset, None)
            expected = min(self.waiting, default=self.newest + 1)

        assert self.queue.remove_run(run) == expected

    @rule(count=st.integers(1, 5))
    def take(self, count):
        expected = sorted(self.waiting)[:count]

        assert self.queue.take(count)[0] == expected

        for offset in expected:
            self.taken[offset] = self.waiting.pop(offset)

    @rule(count=st.none() | st.integers(1, 5))
    def commit(self, count):
        finished = sorted(self.taken)[:count]
        for offset in finished:
            del self.taken[offset]

        assert self.queue.commit(count) == (finished[-1] + 1 if finished else None)

    @rule(count=st.none() | st.integers(1, 5))
    def give_back(self, count):
        for offset in sorted(self.taken, reverse=True)[:count]:
            self.waiting[offset] = self.taken.pop(offset)

        self.queue.give_back(count)

    @invariant()
    def agree(self):
        queue = self.queue
        everything = self.waiting | self.taken
        assert len(queue) == len(everything)
        assert queue.size == sum(each.size for each in everything.values())
        assert queue.oldest == min(self.waiting, default=None)
        assert queue.span == (max(self.waiting) - min(self.waiting) if self.waiting else 0)
        assert (queue.has_waiting, queue.has_taken) == (bool(self.waiting), bool(self.taken))
        assert all((offset in queue) == (offset in everything) for offset in range(62))
        assert all(queue.get(offset) == each for offset, each in self.waiting.items())


TestProcessQueue = AgainstAModel.TestCase


def filled(count, size=1, step=1):
    queue = ProcessQueue()
    queue.put([number * step for number in range(count)], [Sized(size)] * count)
    return queue


def test_the_limits_of_section_8_are_passed_only_by_more_than_they_say():
    assert not filled(1_000).is_over(Limits(), in_order=False)
    assert filled(1_001).is_over(Limits(), in_order=False)
    assert not filled(100, size=1 << 20).is_over(Limits(), in_order=False)
    assert filled(101, size=1 << 20).is_over(Limits(), in_order=False)
    assert not filled(3, step=1_000).is_over(Limits(), in_order=False)
    assert filled(4, step=1_000).is_over(Limits(), in_order=False)
    assert not filled(4, step=1_000).is_over(Limits(), in_order=True)


def test_a_window_that_moves_on_forever_stays_small_and_keeps_its_sizes():
    queue = ProcessQueue()
    for start in range(0, 40_000, 100):
        queue.put(range(start, start + 100), [Sized(start + row) for row in range(100)])
        if start:  # some messages are always left
            assert queue.remove_run(range(start - 100, start)) == start

    assert (len(queue), queue.oldest, queue.span) == (100, 39_900, 99)
    assert queue.size == sum(range(39_900, 40_000))
    assert len(queue._offsets) < 5_000

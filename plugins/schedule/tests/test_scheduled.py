"""`SchedulePlugin.scheduled` says what waits, whatever was dispatched and saved by then."""

from __future__ import annotations

import random

import pytest
from delayedstores import LEVEL_MS, SECOND, Delayed

import reput
from reput_testing import ManualClock, copy_store

pytestmark = pytest.mark.shows("scheduled")


@pytest.fixture(params=["never flushed", "flushed", "flushed and delivered"])
def delayed(tmp_path, request):
    """A store with messages that nobody has dispatched or saved yet."""
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    if request.param != "never flushed":
        delayed.put_in("old", 60 * SECOND)
        delayed.put_in("soon", 2 * SECOND)
        delayed.settle()
        delayed.store.flush()
    if request.param == "flushed and delivered":
        delayed.pass_time(3 * SECOND)
    for number in range(4):
        delayed.put_in(f"timed {number}", (20 + number) * SECOND)
    yield delayed
    delayed.close()


def waiting(delayed):
    return sorted(due for due in delayed.due.values() if due > delayed.clock())


def told(store):
    """Times of a store with timed messages alone, each as often as messages have it."""
    found = store.plugin("schedule").scheduled()
    return [
        time for time, count in zip(found.times, found.counts, strict=True) for _ in range(count)
    ]


def test_what_was_just_put_waits(delayed):
    assert told(delayed.store) == waiting(delayed)


@pytest.mark.parametrize("was_dispatched", [False, True])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_what_a_kill_has_left_waits(delayed, tmp_path, mode, was_dispatched):
    if was_dispatched:
        delayed.store.wait_dispatched()
    copy_store(delayed.root, tmp_path / "left")

    with reput.open(
        tmp_path / "left",
        mode,
        plugins=["consumequeue", "schedule"],
        clock=delayed.clock,
        threads=False,
    ) as store:
        assert told(store) == waiting(delayed)
        if mode == "w":
            store.wait_dispatched()
            assert told(store) == waiting(delayed)


def lives_of_what_is_carried_on(root, seed):
    """Have messages that lie beyond the wheel live through kills and late openings.

    Yields:
        The store as it is at one moment, and how many of its messages wait.
    """
    chance = random.Random(seed)
    delayed = Delayed(root / "0", ManualClock(), roll_window_slots=8).open()
    for number in range(30):
        for copy in range(chance.randrange(4)):
            delayed.put_in(f"{number} {copy}", chance.randrange(2, 60) * SECOND)
        delayed.pass_time(chance.randrange(6) * SECOND)
        if chance.random() < 0.4:
            delayed.store.flush()
        if chance.random() < 0.4:
            left = root / f"{number + 1}"
            copy_store(delayed.root, left)
            delayed.close()
            delayed.root = left
            delayed.clock.advance(chance.randrange(30) * SECOND)
            delayed.open()
            if chance.random() < 0.5:
                delayed.store.wait_dispatched()
                delayed.work(1)
        yield delayed, len(delayed.due) - len(delayed.delivered())
    delayed.close()


@pytest.mark.parametrize("seed", range(5))
def test_what_is_carried_on_is_counted_once_after_kills(tmp_path, seed):
    for delayed, count in lives_of_what_is_carried_on(tmp_path, seed):
        plugins = ["consumequeue", type(delayed.plugin)()]
        with reput.open(delayed.root, "r", plugins=plugins, clock=delayed.clock) as reader:
            assert len(told(reader)) == count
        assert len(told(delayed.store)) == count


def told_of_level(store):
    """Messages of the one level that is used; when the first and the last are due."""
    (found,) = store.plugin("schedule").scheduled().levels
    return found.message_count, found.next_timestamp, found.last_timestamp


@pytest.fixture(params=["never flushed", "flushed", "delivered"])
def at_level(tmp_path, request):
    """A store with messages of a delay level that nobody has dispatched or saved yet."""
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    if request.param != "never flushed":
        delayed.put_at_level("old")
        delayed.settle()
        delayed.store.flush()
    if request.param == "delivered":
        delayed.pass_time(LEVEL_MS + SECOND)
        delayed.store.flush()
    for number in range(4):
        delayed.clock.advance(SECOND)
        delayed.put_at_level(f"level {number}")
    yield delayed
    delayed.close()


def test_what_was_just_put_at_a_level_waits(at_level):
    times = waiting(at_level)

    assert told_of_level(at_level.store) == (len(times), times[0], times[-1])


@pytest.mark.parametrize("was_dispatched", [False, True])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_what_a_kill_has_left_at_a_level_waits(at_level, tmp_path, mode, was_dispatched):
    if was_dispatched:
        at_level.store.wait_dispatched()
    copy_store(at_level.root, tmp_path / "left")
    times = waiting(at_level)

    with reput.open(
        tmp_path / "left",
        mode,
        plugins=["consumequeue", "schedule"],
        clock=at_level.clock,
        threads=False,
    ) as store:
        assert told_of_level(store) == (len(times), times[0], times[-1])
        if mode == "w":
            store.wait_dispatched()
            assert told_of_level(store) == (len(times), times[0], times[-1])


def test_a_reader_follows_a_writer_of_levels(at_level):
    plugins = ["consumequeue", "schedule"]
    with reput.open(at_level.root, "r", plugins=plugins, clock=at_level.clock) as reader:
        for number in range(2):
            at_level.put_at_level(f"more {number}")
            times = waiting(at_level)
            count, first, last = told_of_level(reader)
            assert (count, first, last) == (len(times), times[0], times[-1])
            at_level.store.wait_dispatched()
            assert told_of_level(reader) == (count, first, last)
            at_level.store.flush()
            assert told_of_level(reader) == (count, first, last)


def test_a_reader_follows_a_writer(delayed):
    plugins = ["consumequeue", "schedule"]
    with reput.open(delayed.root, "r", plugins=plugins, clock=delayed.clock) as reader:
        assert told(reader) == waiting(delayed)
        delayed.put_in("more", 5 * SECOND)
        assert told(reader) == waiting(delayed)
        delayed.pass_time(6 * SECOND)
        assert told(reader) == waiting(delayed)
        delayed.store.flush()
        delayed.put_in("last", 7 * SECOND)
        assert told(reader) == waiting(delayed)

"""`SchedulePlugin.scheduled` says what waits, whatever was dispatched and saved by then."""

from __future__ import annotations

import itertools
import random
import shutil

import pytest
from besidewriters import look_between
from delayedstores import LEVEL_MS, SECOND, Delayed
from interleaved import look_across

import reput
from reput_testing import ManualClock, QuickDisk, copy_store

pytestmark = pytest.mark.shows("scheduled")

PLUGINS = ["consumequeue", "schedule"]


def timed(delayed, number):
    delayed.put_in(f"timed {number}", (20 + number) * SECOND)


def at_level(delayed, number):
    delayed.clock.advance(SECOND)
    delayed.put_at_level(f"level {number}")


STATES = ["never flushed", "flushed", "sent", "saved"]


@pytest.fixture(params=itertools.product([timed, at_level], STATES))
def life(tmp_path, request):
    """A store with messages that nobody has dispatched or saved yet; and how they were put."""
    put, state = request.param
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    if state != "never flushed":
        put(delayed, 40)
        if put is timed:
            delayed.put_in("soon", 2 * SECOND)
        delayed.settle()
        delayed.store.flush()
    if state in {"sent", "saved"}:
        delayed.pass_time(3 * SECOND if put is timed else LEVEL_MS + SECOND)
        if state == "saved":
            delayed.store.flush()
    for number in range(4):
        put(delayed, number)
    yield delayed, put
    delayed.close()


def assert_told(store, life):
    """A store tells the time of each timed message, or of each level the first and the last."""
    delayed, put = life
    times = sorted(due for due in delayed.due.values() if due > delayed.clock())
    if put is timed:
        assert told(store) == times
    else:
        (level,) = store.plugin("schedule").scheduled().levels
        found = level.message_count, level.next_timestamp, level.last_timestamp
        assert found == (len(times), times[0], times[-1])


def told(store):
    """Times of a store's timed messages, each as often as messages have it."""
    found = store.plugin("schedule").scheduled()
    return [
        time for time, count in zip(found.times, found.counts, strict=True) for _ in range(count)
    ]


def test_what_was_just_put_waits(life):
    assert_told(life[0].store, life)


@pytest.mark.parametrize("was_dispatched", [False, True])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_what_a_kill_has_left_waits(life, tmp_path, mode, was_dispatched):
    delayed, _ = life
    if was_dispatched:
        delayed.store.wait_dispatched()
    copy_store(delayed.root, tmp_path / "left")

    options = {"plugins": PLUGINS, "clock": delayed.clock, "threads": False}
    with reput.open(tmp_path / "left", mode, **options) as store:
        assert_told(store, life)
        if mode == "w":
            store.wait_dispatched()
            assert_told(store, life)


def test_a_reader_follows_a_writer(life):
    delayed, put = life

    with reput.open(delayed.root, "r", plugins=PLUGINS, clock=delayed.clock) as reader:
        assert_told(reader, life)
        for number in (50, 51):
            put(delayed, number)
            assert_told(reader, life)
            delayed.store.wait_dispatched()
            assert_told(reader, life)
            delayed.store.flush()
            assert_told(reader, life)
        if put is timed:
            delayed.pass_time(22 * SECOND)
            assert_told(reader, life)
            put(delayed, 52)
            assert_told(reader, life)


def kill_and_open(delayed, left, chance, seconds=0):
    """Open what a kill leaves some time later; at times what is due is delivered at once."""
    copy_store(delayed.root, left)
    delayed.close()
    delayed.root = left
    delayed.clock.advance(seconds * SECOND)
    delayed.open()
    if chance.random() < 0.5:
        delayed.store.wait_dispatched()
        delayed.work(1)


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
            kill_and_open(delayed, root / f"{number + 1}", chance, chance.randrange(30))
        yield delayed, len(delayed.due) - len(delayed.delivered())
    delayed.close()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.costly
def test_what_is_carried_on_is_counted_once_after_kills(tmp_path, seed):
    for delayed, count in lives_of_what_is_carried_on(tmp_path, seed):
        plugins = ["consumequeue", type(delayed.plugin)()]
        with reput.open(delayed.root, "r", plugins=plugins, clock=delayed.clock) as reader:
            assert len(told(reader)) == count
        assert len(told(delayed.store)) == count


def cancel_in_many_ways(delayed, chance):
    """Cancel one message, or one that is not there; by one record or by two, once or twice."""
    body = chance.choice([*sorted(delayed.due), "nobody"])
    due = delayed.due.get(body, delayed.clock() + 5 * SECOND)
    if due - delayed.clock() < 2 * SECOND:
        return
    if chance.random() < 0.5:  # as a release of RocketMQ does
        key = chance.choice([body, f"Topic+{body}"])
        named = {"TIMER_DEL_UNIQKEY": key, "UNIQ_KEY": body, "TIMER_DELIVER_MS": str(due)}
        delayed.store.put(reput.Message("Topic", b"0", properties=named))
    else:
        delayed.store.plugin("schedule").cancel("Topic", unique_key=body, deliver_at=due)
    delayed.cancelled.add(body)


def lives_with_cancellations(root, seed):
    """Put, cancel, let time pass, set the clock back, flush and kill; yield after each step."""
    chance = random.Random(seed)
    delayed = Delayed(root / "0", ManualClock(), roll_window_slots=20).open()
    for number in range(30):
        delayed.put_in(f"{number}", chance.choice((4, 5, 5, 6, 30, 60)) * SECOND)
        for _ in range(chance.randrange(2)):
            cancel_in_many_ways(delayed, chance)
        if chance.random() < 0.4:
            delayed.pass_time(chance.randrange(4) * SECOND)
        if chance.random() < 0.4:
            delayed.store.flush()
        if chance.random() < 0.15:
            kill_and_open(delayed, root / f"{number + 1}", chance)
        waiting = set(delayed.due) - delayed.cancelled - set(delayed.delivered())
        yield delayed, len(waiting)
    delayed.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.costly
def test_what_is_cancelled_does_not_count(tmp_path, seed):
    for delayed, count in lives_with_cancellations(tmp_path, seed):
        plugins = ["consumequeue", type(delayed.plugin)()]
        with reput.open(delayed.root, "r", plugins=plugins, clock=delayed.clock) as reader:
            assert len(told(reader)) == count
        assert len(told(delayed.store)) == count


def test_a_reader_takes_no_wheel_that_is_newer_than_its_checkpoint(tmp_path):
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    left = tmp_path / "left"
    delayed.put_in("early", 20 * SECOND)
    delayed.cancel("early")
    delayed.settle()
    delayed.store.flush()
    copy_store(delayed.root, left)
    for body in ("in the same slot", "in it, too"):
        delayed.put_in(body, 20 * SECOND)
    delayed.settle()
    delayed.store.flush()
    for name in ("commitlog", "timerlog"):  # a kill was behind these writes
        shutil.copytree(delayed.root / name, left / name, dirs_exist_ok=True)
    shutil.copy(delayed.root / "timerwheel", left)
    delayed.close()

    with reput.open(left, "r", plugins=PLUGINS, clock=delayed.clock) as reader:
        assert len(told(reader)) == 2


def test_what_was_delivered_is_not_kept_to_count_what_waits(tmp_path):
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    counts = delayed.plugin.timer._counts
    for number in range(30):
        for body in (f"wanted {number}", f"unwanted {number}"):
            delayed.put_in(body, 3 * SECOND)
        delayed.cancel(f"unwanted {number}")
        delayed.settle()
        assert sum(delayed.plugin.scheduled().counts) == min(number + 1, 3)
        delayed.clock.advance(SECOND)
        delayed.settle()

    assert len(counts._special) <= 8  # a cancellation is two records
    assert len(counts._names) <= 16

    delayed.clock.advance(-3 * SECOND)
    delayed.put_in("once more", 2 * SECOND)
    delayed.settle()
    kept = told(delayed.store)
    delayed.plugin.timer._counts = type(counts)(counts._delivery, counts.precision)
    assert kept == told(delayed.store) != []
    delayed.close()


@pytest.fixture
def behind(tmp_path):
    """A store that was killed between the flush of its timer and the note of its progress."""
    delayed, left = Delayed(tmp_path / "store", ManualClock()).open(), tmp_path / "left"
    for part in range(2):
        state = (delayed.root / "reput" / "state").read_bytes()
        for number in range(12):
            delayed.put_in(f"{part} {number}", (20 + number % 3) * SECOND)
            if number % 2:
                delayed.cancel(f"{part} {number}")
        delayed.settle()
        delayed.store.flush()
    copy_store(delayed.root, left)
    (left / "reput" / "state").write_bytes(state)
    delayed.close()
    delayed.root = left
    return delayed


def reopen(delayed, disk, *, flushes=True):
    options = {"clock": delayed.clock, "threads": False}
    with reput.open(delayed.root, plugins=PLUGINS, disk=disk, **options) as store:
        store.wait_dispatched()
        if flushes:
            store.flush()


@pytest.mark.parametrize("seed", [10, 15, 33, 37, 54, 58])
@pytest.mark.costly
def test_a_reader_sees_no_damage_where_a_writer_cuts_what_it_dispatches_again(behind, seed):
    def look(reader):
        # Those that are just put on the wheel may count twice, and not be cancelled.
        assert 12 <= len(told(reader)) <= 48

    def work(disk):
        reopen(behind, disk, flushes=seed % 2)

    look_across(behind.root, PLUGINS, work, look, seed, clock=behind.clock)
    with reput.open(behind.root, "r", plugins=PLUGINS, clock=behind.clock) as reader:
        assert len(told(reader)) == 12


@pytest.mark.proof
@pytest.mark.costly
def test_a_reader_misses_nothing_while_a_wheel_is_made_of_the_timer_log(behind, tmp_path):
    def look(reader):
        assert len(told(reader)) == 12

    def work(disk):
        reopen(behind, disk)

    assert look_between(behind.root, tmp_path / "copies", PLUGINS, work, look, 8) > 25


def test_a_reader_reads_a_checkpoint_again_that_is_being_overwritten(behind):
    class TornDisk(QuickDisk):
        """Returns the checkpoint with bytes of two versions, at the second time."""

        count = 0

        def read_file(self, path, limit=1 << 26):
            data = super().read_file(path, limit)
            self.count += path.endswith("timercheck")
            is_torn = path.endswith("timercheck") and self.count == 2
            return data[:8] + bytes(40) + data[48:] if is_torn else data

    disk = TornDisk()
    with reput.open(behind.root, "r", plugins=PLUGINS, disk=disk, clock=behind.clock) as reader:
        saved = reader.plugin("schedule").timer._saving.saved
        assert disk.count >= 2
        assert not saved.is_superseded
        assert len(told(reader)) == 12


@pytest.mark.parametrize("longest", [1 << 20, 0])
def test_a_reader_counts_levels_whose_queues_are_being_rebuilt_or_says_what_it_lacks(
    tmp_path, monkeypatch, longest
):
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    for number in range(5):
        at_level(delayed, number)
    delayed.settle()
    delayed.store.flush()
    whole = delayed.store.plugin("schedule").scheduled()
    delayed.close()
    shutil.rmtree(tmp_path / "store/consumequeue")
    monkeypatch.setattr("reput_schedule.api.scheduledmessages.LONGEST", longest)

    with reput.open(tmp_path / "store", mode="r", plugins=PLUGINS) as store:
        found = store.plugin("schedule").scheduled()

    if longest:
        assert (found.levels, found.uncounted_size) == (whole.levels, 0)
    else:
        assert found.levels == ()
        assert found.uncounted_size > 0

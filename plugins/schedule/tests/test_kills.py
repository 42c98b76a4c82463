"""Delayed messages when the process is killed between any two file operations.

What was delivered is said by `config/timercheck` and `config/delayOffset.json`, which files are
complete by the store's progress. No kill may set one against the other.
"""

from __future__ import annotations

import pytest
from delayedstores import SECOND, Delayed

from reput_testing import KillPoints, ManualClock, copy_store
from reput_testing.casebudget import is_soak

pytestmark = pytest.mark.shows("delayed", more="REPUT_SOAK=1")


def a_flush(delayed):
    """Of messages that were dispatched, some of which the one before had as well."""
    delayed.put_in("before", 8 * SECOND)
    delayed.put_at_level("level before")
    delayed.settle()
    delayed.store.flush()
    for number in range(3):
        delayed.put_in(f"timed {number}", (5 + number) * SECOND)
        delayed.put_at_level(f"level {number}")
    delayed.put_in("not wanted", 6 * SECOND)
    delayed.cancel("not wanted")
    delayed.settle()
    with delayed.disk.watching():
        delayed.store.flush()


def a_flush_behind_deliveries(delayed):
    """Of what was delivered, too, in two flushes: for one of them it was not on disk yet."""
    for number in range(3):
        delayed.put_in(f"first {number}", (2 + number) * SECOND)
        delayed.put_at_level(f"level {number}")
    delayed.settle()
    delayed.store.flush()
    delayed.pass_time(3 * SECOND)
    delayed.put_in("second", 4 * SECOND)
    delayed.put_in("third", 60 * SECOND)
    delayed.pass_time(1 * SECOND)
    with delayed.disk.watching():
        delayed.store.flush()
        delayed.store.flush()
    delayed.pass_time(10 * SECOND)
    delayed.put_in("fourth", 1 * SECOND)
    delayed.settle()
    with delayed.disk.watching():
        delayed.store.flush()
        delayed.store.flush()


def a_close(delayed):
    """With some delivered, some waiting, some put since the last flush."""
    delayed.put_in("early", 2 * SECOND)
    delayed.put_in("late", 9 * SECOND)
    delayed.put_at_level("level")
    delayed.settle()
    delayed.store.flush()
    delayed.pass_time(4 * SECOND)
    delayed.put_in("last", 3 * SECOND)
    with delayed.disk.watching():
        delayed.close()


def an_opening(delayed):
    """Behind a kill, and closing again."""
    delayed.put_in("early", 2 * SECOND)
    delayed.put_in("late", 9 * SECOND)
    delayed.put_at_level("level")
    delayed.settle()
    delayed.store.flush()
    delayed.pass_time(4 * SECOND)
    delayed.put_in("last", 3 * SECOND)
    left = delayed.root.with_name("left")
    copy_store(delayed.root, left)
    delayed.close()
    delayed.root = delayed.disk.root = left
    with delayed.disk.watching():
        delayed.open()
        delayed.settle()
        delayed.store.flush()
        delayed.close()


def a_suspension(delayed):
    """And going on again, with messages that came meanwhile."""
    delayed.put_in("early", 2 * SECOND)
    delayed.put_in("late", 9 * SECOND)
    delayed.put_at_level("level")
    delayed.pass_time(1 * SECOND)
    with delayed.disk.watching():
        delayed.store.suspend_plugin("schedule")
    delayed.put_in("between", 3 * SECOND)
    delayed.clock.advance(2 * SECOND)
    with delayed.disk.watching():
        delayed.store.resume_plugin("schedule")
        delayed.settle()
        delayed.store.flush()


LIVES = [a_flush, a_flush_behind_deliveries, a_close, an_opening, a_suspension]
OPENINGS = [(True, 8 * SECOND)]
if is_soak():
    OPENINGS += [
        (False, 0),
        (True, 0),
        (True, 3_600 * SECOND),
        (False, 8 * SECOND),
        (False, 3_600 * SECOND),
    ]


@pytest.mark.proof
@pytest.mark.parametrize(("works_first", "later_ms"), OPENINGS)
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_whenever_it_is_killed_each_message_comes_once_and_never_early(
    tmp_path, life, works_first, later_ms
):
    clock = ManualClock()
    before = Delayed(tmp_path / "store", clock)
    before.disk = KillPoints(
        before.root,
        tmp_path / "killed",
        lambda: (clock(), dict(before.due), set(before.cancelled)),
    )
    life(before.open())
    if not before.store.closed:
        before.close()

    def check(root, point):
        now, due, cancelled = point.note
        after = Delayed(root, ManualClock(now + later_ms), due=due, cancelled=cancelled)
        after.open()
        if any(each.state == "suspended" for each in after.store.plugins()):
            after.store.resume_plugin("schedule")
        if works_first:
            after.work()
        after.settle()
        assert sorted(after.delivered()) == after.expected()
        after.put_in("in the end", 5 * SECOND)
        after.close()
        after.open().pass_time(100 * SECOND)
        assert sorted(after.delivered()) == after.expected()
        after.close()

    assert before.disk.check_each(check, 20) > 5

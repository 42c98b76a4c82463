"""Delayed messages when a flush or an opening of the plugin fails, and it is opened again."""

from __future__ import annotations

import errno

import attrs
import pytest
from delayedstores import SECOND, Delayed

import reput
from reput_testing import FaultyDisk, ManualClock, copy_store

pytestmark = pytest.mark.shows("failed-plugin-flush")


@pytest.fixture
def delayed(tmp_path):
    """A store with messages that were delivered since its last flush, and one that waits."""
    delayed = Delayed(tmp_path / "store", ManualClock(), FaultyDisk()).open()
    delayed.put_in("before", 2 * SECOND)
    delayed.put_at_level("level before")
    delayed.settle()
    delayed.store.flush()
    delayed.put_in("behind", 3 * SECOND)
    delayed.put_at_level("level behind")
    delayed.put_in("late", 100 * SECOND)
    delayed.pass_time(11 * SECOND)
    delayed.put_in("soon", 4 * SECOND)
    delayed.settle()
    return delayed


@pytest.mark.parametrize(
    "file", ["timerlog", "timerwheel", "timercheck", "timermetrics", "delayOffset"]
)
def test_what_was_delivered_behind_a_failed_flush_does_not_come_again(delayed, file):
    delayed.disk.plan(1, error=errno.EIO, operations={"flush"}, below=file)
    delayed.store.flush()
    assert delayed.disk.failed
    delayed.disk.mend()
    delayed.clock.advance(5 * SECOND)

    delayed.store.resume_plugin("schedule")
    delayed.work()
    delayed.settle()

    assert sorted(delayed.delivered()) == delayed.expected()
    delayed.close()
    delayed.open().settle()
    assert sorted(delayed.delivered()) == delayed.expected()
    delayed.close()


@pytest.mark.parametrize("file", ["timerlog", "timerwheel", "timercheck", "timermetrics"])
def test_a_flush_that_follows_a_failed_one_fails_as_well(delayed, file):
    delayed.disk.plan(1, error=errno.EIO, operations={"flush"}, below=file)
    delayed.store.flush()
    delayed.disk.mend()

    with pytest.raises(OSError, match="a flush failed before"):
        delayed.plugin.reput_flush()
    delayed.close()


@pytest.mark.shows("full-disk")
@pytest.mark.parametrize("again", ["resumed", "reopened"])
def test_what_was_delivered_before_a_full_opening_does_not_come_again(delayed, tmp_path, again):
    copy_store(delayed.root, tmp_path / "killed")
    delayed.close()
    disk = FaultyDisk(1, operations={"write"}, below="timerlog")
    left = attrs.evolve(delayed, root=tmp_path / "killed", disk=disk).open()
    assert left.store.plugins()[-1].state == "suspended"

    left.store.put(reput.Message("Topic", b"plain"))
    left.store.flush()
    if again == "resumed":
        left.store.resume_plugin("schedule")
    else:
        left.close()
        left.open()
    left.settle()

    assert sorted(left.delivered()) == sorted(["plain", *left.expected()])
    left.close()

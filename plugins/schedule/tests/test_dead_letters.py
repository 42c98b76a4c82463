"""Dead letters of the plugin itself keep nothing waiting that is due."""

from __future__ import annotations

import pytest
from delayedstores import SECOND, Delayed

import reput
from reput_schedule import SchedulePlugin
from reput_testing import ManualClock, copy_store


class Picky(SchedulePlugin):
    """Has a message that it cannot take."""

    @reput.hookimpl
    def reput_dispatch(self, batch):
        for row in range(len(batch)):
            if batch.message(row).body == b"poison":
                raise ValueError("poison")
        super().reput_dispatch(batch)


@pytest.mark.parametrize("was_dispatched", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_what_is_due_comes_though_the_log_ends_in_dead_letters(tmp_path, count, was_dispatched):
    delayed = Delayed(tmp_path / "store", ManualClock()).open()
    delayed.put_in("timed", 2 * SECOND)
    if was_dispatched:
        delayed.settle()
        delayed.store.flush()
    for _ in range(count):
        delayed.store.put(reput.Message("Topic", b"poison"))
    copy_store(delayed.root, tmp_path / "left")
    delayed.close()

    left = Delayed(tmp_path / "left", delayed.clock, due=delayed.due)
    left.plugin = Picky()
    left.store = reput.open(
        left.root,
        plugins=["consumequeue", left.plugin],
        config={"dispatch": {"on_error": "skip", "retry_count": 0}},
        clock=left.clock,
        disk=left.disk,
        threads=False,
    )
    left.pass_time(3 * SECOND)

    assert sorted(set(left.delivered()) - {"poison"}) == left.expected() == ["timed"]
    left.close()

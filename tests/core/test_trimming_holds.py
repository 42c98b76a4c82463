"""Before old files go plugins are asked, and notified: who holds them back, and who does not."""

from __future__ import annotations

import errno
import threading

import pytest
from openstores import only_hangs, state_of, until
from trimmedstores import (
    SIZE,
    Deriving,
    Notes,
    fill,
    holders,
    keep,
    notes,
    open_with,
    removed,
)

import reput
from reput.dispatch.retentionholds import LiveHolds
from reput.files import Disk
from reput.log import LogHead, StateFile
from reput_testing.crashes.storeinternals import store_internals

pytestmark = pytest.mark.usefixtures("quiet")


# --------------------------------------------------------------------------- who is asked


def must_notify(root):
    return LogHead(StateFile.of(str(root), Disk())).must_notify


def test_what_a_plugin_needs_is_kept_until_it_does_not_need_it(tmp_path):
    plugin = Notes(needs=SIZE + 100)
    with open_with(tmp_path, plugin) as store:
        fill(store, 4)
        held = keep(store, 1)
        plugin.needs = None
        free = keep(store, 1)

    assert removed(held) == [0]
    assert holders(held, 3 * SIZE) == [("notes", SIZE + 100)]
    assert removed(free) == [SIZE, 2 * SIZE]


def test_a_reader_asks_what_plugins_need_too(tmp_path):
    with open_with(tmp_path, Notes()) as store:
        fill(store, 4)
    plugin = Notes(needs=SIZE + 100)
    with reput.open(tmp_path, "r", plugins=[plugin]) as store:
        held = store.trim_log(3 * SIZE, dry_run=True)

    assert plugin.asked == 1
    assert removed(held) == [0]
    assert holders(held, 3 * SIZE) == [("notes", SIZE + 100)]


def test_what_a_plugin_says_counts_only_for_what_it_had_seen_by_then(tmp_path):
    # What it is given behind its answer it may need, whatever it said before.
    with open_with(tmp_path, Notes(needs=None)) as store:
        while store.log.file_count < 4:
            store.put(reput.Message("T", b"x" * 900))
        holds = store_internals(store).trimming.holds
        position = state_of(store, "notes").dispatched_to
        holds.ask("")
        store.wait_dispatched(10)
        store.flush()

        found = {hold.physical_offset for hold in holds.holds("keep", "") if "needs" in hold.reason}

        assert found == {position}
        assert position < store.log.max_physical_offset


def test_nobody_is_asked_as_long_as_nothing_is_to_go(tmp_path):
    plugin = Notes(needs=0)
    with open_with(tmp_path, plugin) as store:
        fill(store, 4)
        for physical_offset in (-1, 0, SIZE - 1):
            store.trim_log(physical_offset)

    assert plugin.asked == 0


def test_what_a_suspended_plugin_has_not_seen_is_kept(tmp_path):
    plugin = Deriving()
    with open_with(tmp_path, plugin) as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        fill(store, 6)
        held = keep(store, 1)
        position = state_of(store, "deriving").dispatched_to
        seen = len(plugin.offsets)
        store.resume_plugin("deriving")
        store.wait_dispatched(10)
        free = keep(store, 1)

        # All of them came, the last of the first two files too, and in their order.
        assert plugin.offsets == sorted(set(plugin.offsets))
        assert len(plugin.offsets) > seen

    assert held.min_physical_offset <= position < held.min_physical_offset + SIZE
    assert free.min_physical_offset == 5 * SIZE


def test_what_a_suspended_plugin_needs_is_what_it_said_last_or_else_everything(tmp_path):
    plugin = Notes(needs=2 * SIZE + 5)
    with open_with(tmp_path, plugin) as store:
        fill(store, 3)
        keep(store, 1)
        store.suspend_plugin("notes")
        fill(store, 6)
        report = keep(store, 1)
        # Nothing needed, but asked when it had not seen all that it has seen since.
        store.resume_plugin("notes")
        plugin.needs = None
        store.wait_dispatched(10)
        reached = store.log.max_physical_offset
        assert removed(keep(store, 3))
        fill(store, 9)
        store.suspend_plugin("notes")
        later = keep(store, 1)
    with open_with(tmp_path, Notes()) as store:
        unknown = keep(store, 1)

    assert report.min_physical_offset == 2 * SIZE
    assert reached - SIZE < later.min_physical_offset <= reached
    assert removed(unknown) == []
    assert any("not known" in hold.reason for hold in unknown.holds)


def test_it_is_kept_over_closing_and_opening_again(tmp_path):
    with open_with(tmp_path, Deriving()) as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        fill(store, 6)
    plugin = Deriving()
    with open_with(tmp_path, plugin) as store:
        report = keep(store, 1)
        begin = state_of(store, "deriving").dispatched_to
        store.resume_plugin("deriving")
        store.wait_dispatched(10)

    assert removed(report)
    assert holders(report, 5 * SIZE) == [("deriving", begin)]
    assert any("does not run" in hold.reason for hold in report.holds)
    assert plugin.offsets[0] == begin


def test_only_when_told_so_is_it_dropped_and_the_plugin_goes_on_behind_it(tmp_path):
    plugin = Deriving()
    with open_with(tmp_path, plugin) as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        seen = len(plugin.offsets)
        fill(store, 6)
        report = keep(store, 2, unseen="drop")
        lag = state_of(store, "deriving")
        store.resume_plugin("deriving")
        store.wait_dispatched(10)

        assert len(removed(report)) == 4
        assert lag.dispatched_to == 4 * SIZE
        assert plugin.offsets[seen] == 4 * SIZE
        assert store.losses() == []  # dropped, not damaged


def test_one_that_waits_for_another_counts_as_one_that_does_not_run(tmp_path):
    first = type("First", (Deriving,), {"name": "first"})()
    second = type("Second", (Deriving,), {"name": "second", "requires": frozenset({"first"})})()
    with open_with(tmp_path, first, second) as store:
        fill(store, 2)
        store.suspend_plugin("first")
        fill(store, 5)
        kept = keep(store, 1)
        dropped = keep(store, 1, unseen="drop")
        store.resume_plugin("first")
        store.wait_dispatched(10)

        assert {name for name, _ in holders(kept, 4 * SIZE)} == {"first", "second"}
        assert dropped.min_physical_offset == 4 * SIZE
        assert second.offsets[-1] == first.offsets[-1] == store.log.last_record_offset
        assert store.losses() == []


def test_one_that_cannot_be_opened_keeps_what_it_may_need(tmp_path):
    def broken(self, context):
        raise OSError("not today")

    with open_with(tmp_path, Notes()) as store:
        fill(store, 4)
    with open_with(tmp_path, notes(reput_open=broken)) as store:
        report = keep(store, 1)

    assert removed(report) == []
    assert {hold.reason.partition(",")[0] for hold in report.holds} >= {"it does not run"}


def test_what_was_not_flushed_of_a_plugin_is_kept(tmp_path):
    # After a crash its files are what they were at the last flush, and the rest comes again.
    def refuse(self):
        raise OSError(errno.EIO, "no")

    plugin = type("F", (Deriving,), {"reput_flush": reput.hookimpl(refuse)})()
    with open_with(tmp_path, plugin) as store:
        fill(store, 4)
        report = keep(store, 1)
        assert state_of(store, "deriving").state == "suspended"

    assert removed(report) == []


@pytest.mark.parametrize(
    "answer", [lambda: 1 / 0, lambda: "all of it", lambda: True], ids=["raises", "text", "bool"]
)
def test_one_that_does_not_say_what_it_needs_keeps_everything_and_is_suspended(tmp_path, answer):
    plugin = Notes(needs=answer)
    other = Deriving()
    with open_with(tmp_path, plugin, other) as store:
        fill(store, 4)
        report = keep(store, 1)

        assert removed(report) == []
        assert state_of(store, "notes").state == "suspended"
        assert state_of(store, "deriving").state == "running"


def test_one_that_fails_when_it_is_told_is_suspended_and_the_others_are_told(tmp_path):
    def fail(self, min_physical_offset):
        raise ValueError("no")

    bad, good = notes("bad", reput_trim=fail), Notes()
    with open_with(tmp_path, bad, good) as store:
        fill(store, 4)
        report = keep(store, 1)

        assert report.not_notified == ("bad",)
        assert good.told == [3 * SIZE]
        assert state_of(store, "bad").state == "suspended"


def test_one_that_hangs_when_it_is_asked_holds_up_nobody_for_long(tmp_path, monkeypatch):
    gate, hanging = threading.Event(), only_hangs(monkeypatch)

    def needs():
        if not gate.is_set():
            hanging.add(("notes", "reput_hold"))  # from here on: its thread may begin late
        assert gate.wait(30)

    plugin = Notes(needs=needs)
    try:
        options = {"threads": True, "rules": {"stall_ms": 100}}
        with open_with(tmp_path, plugin, Deriving(), **options) as store:
            fill(store, 4)
            held = keep(store, 1)
            state = state_of(store, "notes").state
            hanging.clear()
            gate.set()
            until(lambda: keep(store, 1).min_physical_offset == 3 * SIZE)
            back = state_of(store, "notes").state

        assert removed(held) == []
        assert (state, back) == ("stalled", "running")
    finally:
        gate.set()


def test_a_plugin_that_is_resumed_or_added_is_told_what_it_missed(tmp_path):
    plugin = notes(reput_hold=lambda self: None)
    with open_with(tmp_path, plugin) as store:
        fill(store, 4)
        store.suspend_plugin("notes")
        first = keep(store, 2, unseen="drop")
        nothing_said = list(plugin.told)
        marked = must_notify(tmp_path)
        store.resume_plugin("notes")
        second = keep(store, 2, unseen="drop")

    assert (first.not_notified, nothing_said, marked) == (("notes",), [], True)
    assert (removed(second), second.not_notified, plugin.told) == ([], (), [2 * SIZE])
    assert not must_notify(tmp_path)


def test_after_a_crash_behind_the_removal_plugins_are_told_by_the_next_writer(
    tmp_path, monkeypatch
):
    def end(self, asker):
        raise RuntimeError("the process ends here")

    with open_with(tmp_path, Notes()) as store:
        fill(store, 4)
        monkeypatch.setattr(LiveHolds, "notify", end)
        with pytest.raises(RuntimeError):
            keep(store, 2)
        monkeypatch.undo()
    plugin = Notes()
    with open_with(tmp_path, plugin):
        pass

    assert plugin.told == [2 * SIZE]
    assert not must_notify(tmp_path)

"""Before old files go plugins are asked, and told: who holds them back, and who does not."""

from __future__ import annotations

import errno
import logging
import threading

import pytest
from openstores import state_of, until
from retainedstores import (
    SIZE,
    Deriving,
    Notes,
    fill,
    notes,
    open_with,
)

import reput
from reput.retention.config import RetentionConfig
from reput.retention.holds import LiveHolds
from reput_testing import ManualClock
from reput_testing.crashes.insides import insides

pytestmark = pytest.mark.usefixtures("quiet")


# --------------------------------------------------------------------------- who is asked


def test_what_a_plugin_needs_is_kept_until_it_does_not_need_it(tmp_path):
    clock = ManualClock()
    plugin = Notes(needs=SIZE + 100)
    with open_with(tmp_path, plugin, clock=clock, max_bytes=SIZE) as store:
        fill(store, 4)
        held = store.expire_log()
        plugin.needs = None
        free = store.expire_log()

    assert [each.base_offset for each in held.removed] == [0]
    assert [each.base_offset for each in held.plan.held] == [SIZE, 2 * SIZE]
    assert [(hold.plugin, hold.physical_offset) for hold in held.plan.holds] == [
        ("notes", SIZE + 100)
    ]
    assert [each.base_offset for each in free.removed] == [SIZE, 2 * SIZE]


def test_what_a_plugin_says_counts_only_for_what_it_had_seen_by_then(tmp_path):
    # What it is given behind its answer it may need, whatever it said before.
    config = RetentionConfig(max_bytes=SIZE)
    with open_with(tmp_path, Notes(needs=None)) as store:
        while store.log.file_count < 4:
            store.put(reput.Message("T", b"x" * 900))
        holds = insides(store).retention.holds
        position = state_of(store, "notes").dispatched_to
        holds.ask(config)
        store.wait_dispatched(10)
        store.flush()

        found = {hold.physical_offset for hold in holds.holds(config) if "needs" in hold.reason}

        assert found == {position}
        assert position < store.log.max_physical_offset


def test_by_policy_a_plugin_is_told_instead_of_waited_for(tmp_path):
    plugin = Notes(needs=0)
    with open_with(tmp_path, plugin, max_bytes=SIZE, held="tell") as store:
        fill(store, 4)
        report = store.expire_log()

    assert len(report.removed) == 3
    assert plugin.told == [3 * SIZE]
    assert plugin.asked == 0


def test_nobody_is_asked_as_long_as_nothing_is_to_go(tmp_path):
    plugin = Notes(needs=0)
    with open_with(tmp_path, plugin, max_bytes=100 * SIZE) as store:
        fill(store, 4)
        store.expire_log()

    assert plugin.asked == 0


def test_what_a_suspended_plugin_has_not_seen_is_kept(tmp_path):
    plugin = Deriving()
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        fill(store, 6)
        held = store.expire_log()
        position = state_of(store, "deriving").dispatched_to
        seen = len(plugin.offsets)
        store.resume_plugin("deriving")
        store.wait_dispatched(10)
        free = store.expire_log()

        # All of them came, the last of the first two files too, and in their order.
        assert plugin.offsets == sorted(set(plugin.offsets))
        assert len(plugin.offsets) > seen

    assert held.min_physical_offset <= position < held.plan.held[0].end_offset
    assert free.min_physical_offset == 5 * SIZE


def test_what_a_suspended_plugin_needs_is_what_it_said_last_or_else_everything(tmp_path):
    plugin = Notes(needs=2 * SIZE + 5)
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 3)
        store.expire_log()
        store.suspend_plugin("notes")
        fill(store, 6)
        report = store.expire_log()
        # Nothing needed, but asked when it had not seen all that it has seen since.
        store.resume_plugin("notes")
        plugin.needs = None
        store.wait_dispatched(10)
        reached = store.log.max_physical_offset
        assert store.expire_log(config=RetentionConfig(max_bytes=3 * SIZE)).removed
        fill(store, 9)
        store.suspend_plugin("notes")
        later = store.expire_log()
    with open_with(tmp_path, Notes(), max_bytes=SIZE) as store:
        unknown = store.expire_log()

    assert report.min_physical_offset == 2 * SIZE
    assert reached - SIZE < later.min_physical_offset <= reached
    assert unknown.removed == ()
    assert any("not known" in hold.reason for hold in unknown.plan.holds)


def test_it_is_kept_over_closing_and_opening_again(tmp_path):
    with open_with(tmp_path, Deriving(), max_bytes=SIZE) as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        fill(store, 6)
    plugin = Deriving()
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        report = store.expire_log()
        facts = store.report()["retention"]
        begin = state_of(store, "deriving").dispatched_to
        store.resume_plugin("deriving")
        store.wait_dispatched(10)

    assert report.removed
    assert report.plan.held
    assert facts["held_size"] == report.plan.held_size
    assert "does not run" in facts["holds"][0]["reason"]
    assert plugin.offsets[0] == begin


def test_only_when_told_so_is_it_dropped_and_the_plugin_goes_on_behind_it(tmp_path):
    plugin = Deriving()
    with open_with(tmp_path, plugin, max_bytes=2 * SIZE, unseen="drop") as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        seen = len(plugin.offsets)
        fill(store, 6)
        report = store.expire_log()
        lag = state_of(store, "deriving")
        store.resume_plugin("deriving")
        store.wait_dispatched(10)

        assert len(report.removed) == 4
        assert lag.dispatched_to == 4 * SIZE
        assert plugin.offsets[seen] == 4 * SIZE
        assert store.losses() == []  # dropped, not damaged


def test_one_that_waits_for_another_counts_as_one_that_does_not_run(tmp_path):
    first = type("First", (Deriving,), {"name": "first"})()
    second = type("Second", (Deriving,), {"name": "second", "requires": frozenset({"first"})})()
    with open_with(tmp_path, first, second, max_bytes=SIZE) as store:
        fill(store, 2)
        store.suspend_plugin("first")
        fill(store, 5)
        kept = store.expire_log()
        dropped = store.expire_log(config=RetentionConfig(max_bytes=SIZE, unseen="drop"))
        store.resume_plugin("first")
        store.wait_dispatched(10)

        assert {hold.plugin for hold in kept.plan.holds} == {"first", "second"}
        assert dropped.min_physical_offset == 4 * SIZE
        assert second.offsets[-1] == first.offsets[-1] == store.log.last_record_offset
        assert store.losses() == []


def test_one_that_cannot_be_opened_keeps_what_it_may_need(tmp_path):
    def broken(self, context):
        raise OSError("not today")

    with open_with(tmp_path, Notes(), max_bytes=SIZE) as store:
        fill(store, 4)
    with open_with(tmp_path, notes(reput_open=broken), max_bytes=SIZE) as store:
        report = store.expire_log()

    assert report.removed == ()
    assert {hold.reason.partition(",")[0] for hold in report.plan.holds} >= {"it does not run"}


def test_what_was_not_flushed_of_a_plugin_is_kept(tmp_path):
    # After a crash its files are what they were at the last flush, and the rest comes again.
    def refuse(self):
        raise OSError(errno.EIO, "no")

    plugin = type("F", (Deriving,), {"reput_flush": reput.hookimpl(refuse)})()
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 4)
        report = store.expire_log()
        assert state_of(store, "deriving").state == "suspended"

    assert report.removed == ()


@pytest.mark.parametrize(
    "answer", [lambda: 1 / 0, lambda: "all of it", lambda: True], ids=["raises", "text", "bool"]
)
def test_one_that_does_not_say_what_it_needs_keeps_everything_and_is_suspended(tmp_path, answer):
    plugin = Notes(needs=answer)
    other = Deriving()
    with open_with(tmp_path, plugin, other, max_bytes=SIZE) as store:
        fill(store, 4)
        report = store.expire_log()

        assert report.removed == ()
        assert state_of(store, "notes").state == "suspended"
        assert state_of(store, "deriving").state == "running"


def test_one_that_fails_when_it_is_told_is_suspended_and_the_others_are_told(tmp_path):
    def fail(self, min_physical_offset):
        raise ValueError("no")

    bad, good = notes("bad", reput_trim=fail), Notes()
    with open_with(tmp_path, bad, good, max_bytes=SIZE) as store:
        fill(store, 4)
        report = store.expire_log()

        assert report.not_notified == ("bad",)
        assert good.told == [3 * SIZE]
        assert state_of(store, "bad").state == "suspended"


def test_one_that_hangs_when_it_is_asked_holds_up_nobody_for_long(tmp_path):
    gate = threading.Event()
    plugin = Notes(needs=lambda: gate.wait(30) and None)
    try:
        options = {"threads": True, "rules": {"stall_ms": 100}, "max_bytes": SIZE}
        with open_with(tmp_path, plugin, Deriving(), **options) as store:
            fill(store, 4)
            held = store.expire_log()
            state = state_of(store, "notes").state
            gate.set()
            until(lambda: store.expire_log().min_physical_offset == 3 * SIZE)
            back = state_of(store, "notes").state

        assert held.removed == ()
        assert (state, back) == ("stalled", "running")
    finally:
        gate.set()


def test_a_plugin_that_is_resumed_or_added_is_told_what_it_missed(tmp_path):
    plugin = notes(reput_hold=lambda self: None)
    with open_with(tmp_path, plugin, max_bytes=2 * SIZE, unseen="drop") as store:
        fill(store, 4)
        store.suspend_plugin("notes")
        first = store.expire_log()
        nothing_said = list(plugin.told)
        marked = (tmp_path / "reput" / "trimming").exists()
        store.resume_plugin("notes")
        second = store.expire_log()

    assert (first.not_notified, nothing_said, marked) == (("notes",), [], True)
    assert (second.removed, second.not_notified, plugin.told) == ((), (), [2 * SIZE])
    assert not (tmp_path / "reput" / "trimming").exists()


def test_after_a_crash_behind_the_removal_plugins_are_told_by_the_next_writer(
    tmp_path, monkeypatch
):
    def end(self):
        raise RuntimeError("the process ends here")

    with open_with(tmp_path, Notes(), max_bytes=2 * SIZE) as store:
        fill(store, 4)
        monkeypatch.setattr(LiveHolds, "tell", end)
        with pytest.raises(RuntimeError):
            store.expire_log()
        monkeypatch.undo()
    plugin = Notes()
    with open_with(tmp_path, plugin, max_bytes=0) as store:  # with options or without
        due = store.work()

    assert plugin.told == [2 * SIZE]
    assert due is None
    assert not (tmp_path / "reput" / "trimming").exists()


def test_a_warning_is_given_once_as_long_as_the_same_ones_hold(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "reput.retention.service")
    plugin = Notes(needs=0)
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 3)
        for _ in range(3):
            store.expire_log()
        once = [record for record in caplog.records if "kept beyond" in record.message]
        plugin.needs = None
        store.expire_log()
        plugin.needs = 0
        fill(store, 4)
        store.expire_log()
        twice = [record for record in caplog.records if "kept beyond" in record.message]

    assert (len(once), len(twice)) == (1, 2)
    assert "plugin=notes" in once[0].message

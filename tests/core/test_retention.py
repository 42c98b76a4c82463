"""Old files go: when, which, who holds them back, who is told, what a full disk means."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading

import pytest

import reput
from reput.errors import (
    ConfigError,
    DiskFullError,
    OffsetOutOfRangeError,
    PluginError,
    ReadOnlyStoreError,
)
from reput.manifest import Manifest
from reput.retention import RetentionConfig
from reput.retentionholds import LiveHolds
from reput.status import PutStatus
from reput.testing import FaultyDisk, ManualClock, QuickDisk, snapshot

SIZE = 4_096
HOUR = 3_600_000
LOG = {"file_size": SIZE, "preallocate": False, "plugin_flush_interval_ms": 5}
DISPATCH = {"retry_pause_ms": 1, "retry_count": 0, "stall_ms": 100}

pytestmark = pytest.mark.usefixtures("_quiet")


@pytest.fixture
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "reput")


class Notes(reput.Plugin):
    """Keeps the offsets of messages, needs what it is told to need, and notes what it is told."""

    def __init__(self, name="notes", needs=None):
        super().__init__(None)
        type(self).name = name
        self.offsets = []
        self.told = []
        self.needs = needs
        self.asked = 0

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.offsets += batch.physical_offset.tolist()

    @reput.hookimpl
    def reput_trim(self, min_physical_offset):
        self.told.append(min_physical_offset)

    @reput.hookimpl
    def reput_hold(self):
        self.asked += 1
        return self.needs() if callable(self.needs) else self.needs


def notes(name="notes", **members):
    """A plugin of a class of its own; ``members`` are hooks as plain functions."""
    made = {key: reput.hookimpl(f) if callable(f) else f for key, f in members.items()}
    return type(f"{name.capitalize()}Notes", (Notes,), made)(name)


def open_with(path, *plugins, clock=None, threads=False, disk=None, log=None, **retention):
    return reput.open(
        path,
        plugins=plugins,
        config={"commitlog": {**LOG, **(log or {})}, "dispatch": DISPATCH, "retention": retention},
        clock=clock or ManualClock(),
        threads=threads,
        disk=disk or QuickDisk(),
    )


def fill(store, file_count, clock=None, step_ms=0):
    """Put messages until the log has that many files; ``step_ms`` pass before each file."""
    while store.log.file_count < file_count:
        before = store.log.file_count
        store.put(reput.Message("T", b"x" * 900))
        if store.log.file_count > before and clock is not None:
            clock.advance(step_ms)
    store.wait_dispatched(10)


def bases(store):
    return list(store.log.files.bases)


def names(path):
    return sorted(os.listdir(path / "commitlog"))


def until(condition):
    """Wait for what another thread is about to do; the limit is for broken code only."""
    turn = threading.Event()
    for _ in range(4_000):
        if condition():
            return
        turn.wait(0.005)
    raise AssertionError("it never happened")


def state_of(store, name="notes"):
    return next(state for state in store.plugins() if state.name == name)


# --------------------------------------------------------------------------- what goes


def test_without_options_nothing_goes_however_old_it_is(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock) as store:
        fill(store, 4)
        clock.advance(10_000 * HOUR)

        due = store.work()
        report = store.clean_log()

        assert due is None
        assert report.removed == ()
        assert len(bases(store)) == 4


def test_old_files_go_in_the_background_and_plugins_are_told(tmp_path):
    clock = ManualClock()
    plugin = Notes()
    with open_with(tmp_path, plugin, clock=clock, reserved_ms=72 * HOUR) as store:
        fill(store, 5, clock, step_ms=HOUR)
        due = store.work()
        assert due == clock.now + 10_000
        clock.advance(68 * HOUR)  # the first file ended 72 hours ago, the next one an hour later

        left = []
        for _ in range(4):
            store.work()
            left.append(len(bases(store)))
            clock.advance(HOUR)

        assert left == [4, 3, 2, 1]
        assert plugin.told == [SIZE, 2 * SIZE, 3 * SIZE, 4 * SIZE]
        assert names(tmp_path) == [f"{4 * SIZE:020d}"]
        assert store.log.min_physical_offset == 4 * SIZE


def test_a_check_is_not_made_before_its_time_however_often_somebody_asks(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock, reserved_ms=1) as store:
        fill(store, 3)
        first = store.work()
        clock.advance(9_999)
        second = store.work()
        untouched = len(bases(store))
        clock.advance(1)
        third = store.work()

        assert first == second
        assert third == clock.now + 10_000
        assert (untouched, len(bases(store))) == (3, 1)


def test_a_clock_that_was_put_back_does_not_stop_the_checks(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock, max_bytes=SIZE) as store:
        fill(store, 3)
        store.work()
        clock.advance(-1_000_000)
        store.work()

        assert len(bases(store)) == 1


def test_in_the_background_files_go_in_portions(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock, max_bytes=SIZE, batch_count=2) as store:
        fill(store, 6)
        store.work()
        clock.advance(10_000)

        seen = []
        while (due := store.work()) is not None and due <= clock.now:
            seen.append(len(bases(store)))

        assert seen == [4, 2]
        assert len(bases(store)) == 1


def test_the_hour_is_waited_for_in_the_background_only(tmp_path):
    clock = ManualClock()  # noon, UTC
    options = {"reserved_ms": 1, "delete_when": "14", "check_interval_ms": HOUR}
    with open_with(tmp_path / "a", Notes(), clock=clock, **options) as store:
        fill(store, 3)
        counts = []
        for _ in range(4):
            store.work()
            counts.append(len(bases(store)))
            clock.advance(HOUR)
    with open_with(tmp_path / "b", Notes(), clock=ManualClock(), **options) as store:
        fill(store, 3)
        clock.advance(1)
        store.clean_log(config=RetentionConfig(reserved_ms=1, delete_when="14"))
        clock_stands = len(bases(store))

    assert counts == [3, 3, 1, 1]
    assert clock_stands == 3  # nothing is older than a millisecond there


def test_age_is_the_last_messages_and_not_the_files(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock) as store:
        fill(store, 3)
    for name in names(tmp_path):
        os.utime(tmp_path / "commitlog" / name)  # as a copy would
    clock.advance(2 * HOUR)
    with open_with(tmp_path, Notes(), clock=clock) as store:
        young = store.clean_log(dry_run=True, config=RetentionConfig(reserved_ms=3 * HOUR))
        old = store.clean_log(dry_run=True, config=RetentionConfig(reserved_ms=HOUR))

    assert (len(young.plan.removals), len(old.plan.removals)) == (0, 2)
    assert {each.last_timestamp for each in old.plan.removals} == {ManualClock().now}


def test_where_no_record_tells_the_age_the_file_does(tmp_path):
    with open_with(tmp_path, Notes(), reserved_ms=1) as store:
        fill(store, 3)
    path = tmp_path / "commitlog" / f"{SIZE:020d}"
    path.write_bytes(bytes(SIZE))  # no first record any more
    first = tmp_path / "commitlog" / f"{0:020d}"
    first.write_bytes(bytes(SIZE))
    os.utime(first, (4_000_000, 4_000_000))
    with reput.open(tmp_path, "r", plugins=[Notes()], clock=ManualClock()) as store:
        planner = store._cleaner.planner

        assert planner.last_timestamp(0) == 4_000_000_000


def test_a_dry_run_changes_no_byte(tmp_path):
    clock = ManualClock()
    plugin = Notes()
    with open_with(tmp_path, plugin, clock=clock, max_bytes=SIZE) as store:
        fill(store, 5)
        before = snapshot(tmp_path)
        report = store.clean_log(dry_run=True)
        after = snapshot(tmp_path)

        assert after == before
        assert [each.base_offset for each in report.plan.removals] == [0, 4096, 8192, 12288]
        assert (report.is_dry_run, report.removed, report.min_physical_offset) == (True, (), 0)
        assert report.plan.min_physical_offset == 4 * SIZE
        assert plugin.told == []
        assert len(bases(store)) == 5


def test_a_reader_says_what_would_go_and_removes_nothing(tmp_path):
    with open_with(tmp_path, Notes(), max_bytes=2 * SIZE) as store:
        fill(store, 5)
    before = snapshot(tmp_path)
    with reput.open(tmp_path, "r", plugins=[Notes()]) as store:
        report = store.clean_log(dry_run=True)
        facts = store.report()["retention"]
        with pytest.raises(ReadOnlyStoreError):
            store.clean_log()

    assert len(report.plan.removals) == 3
    assert (facts["due_count"], facts["held_count"], facts["is_active"]) == (3, 0, True)
    assert snapshot(tmp_path) == before


def test_what_was_configured_is_remembered_also_when_plugins_come_and_go(tmp_path):
    with open_with(tmp_path, Notes(), max_bytes=9 * SIZE) as store:
        store.add_plugin(notes("more"))
        store.remove_plugin("more")
    with reput.open(tmp_path, plugins=[Notes()], threads=False, disk=QuickDisk()) as store:
        assert store.retention.max_bytes == 9 * SIZE
    assert Manifest.load(str(tmp_path), QuickDisk()).config["retention"] == {"max_bytes": 9 * SIZE}


def test_a_wrong_option_keeps_the_store_from_opening_and_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match="delete_when"):
        open_with(tmp_path / "new", Notes(), delete_when="noon")

    assert not (tmp_path / "new").exists()


def test_what_follows_is_stored_and_opened_as_if_nothing_had_been(tmp_path):
    with open_with(tmp_path, Notes()) as store:
        fill(store, 5)
        store.clean_log(config=RetentionConfig(max_bytes=2 * SIZE))
        receipt = store.put(reput.Message("T", b"more"))
        rows = sum(len(batch) for batch in store.scan())
    again = Notes()
    with open_with(tmp_path, again) as store:
        assert store.clean
        assert store.log.min_physical_offset == 3 * SIZE
        assert store.get(receipt.physical_offset).body == b"more"
        assert sum(len(batch) for batch in store.scan(check_crc=True)) == rows
        assert store.losses() == []


# --------------------------------------------------------------------------- who is asked


def test_what_a_plugin_needs_is_kept_until_it_does_not_need_it(tmp_path):
    clock = ManualClock()
    plugin = Notes(needs=SIZE + 100)
    with open_with(tmp_path, plugin, clock=clock, max_bytes=SIZE) as store:
        fill(store, 4)
        held = store.clean_log()
        plugin.needs = None
        free = store.clean_log()

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
        holds = store._cleaner.holds
        position = state_of(store).dispatched_to
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
        report = store.clean_log()

    assert len(report.removed) == 3
    assert plugin.told == [3 * SIZE]
    assert plugin.asked == 0


def test_nobody_is_asked_as_long_as_nothing_is_to_go(tmp_path):
    plugin = Notes(needs=0)
    with open_with(tmp_path, plugin, max_bytes=100 * SIZE) as store:
        fill(store, 4)
        store.clean_log()

    assert plugin.asked == 0


def test_what_a_suspended_plugin_has_not_seen_is_kept(tmp_path):
    plugin = Deriving()
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 2)
        store.suspend_plugin("deriving")
        fill(store, 6)
        held = store.clean_log()
        position = state_of(store, "deriving").dispatched_to
        seen = len(plugin.offsets)
        store.resume_plugin("deriving")
        store.wait_dispatched(10)
        free = store.clean_log()

        # All of them came, the last of the first two files too, and in their order.
        assert plugin.offsets == sorted(set(plugin.offsets))
        assert len(plugin.offsets) > seen

    assert held.min_physical_offset <= position < held.plan.held[0].end_offset
    assert free.min_physical_offset == 5 * SIZE


class Deriving(reput.Plugin):
    """Has nothing but its place."""

    name = "deriving"

    def __init__(self):
        super().__init__(None)
        self.offsets = []

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.offsets += batch.physical_offset.tolist()


def test_what_a_suspended_plugin_needs_is_what_it_said_last_or_else_everything(tmp_path):
    plugin = Notes(needs=2 * SIZE + 5)
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 3)
        store.clean_log()
        store.suspend_plugin("notes")
        fill(store, 6)
        report = store.clean_log()
        # Nothing needed, but asked when it had not seen all that it has seen since.
        store.resume_plugin("notes")
        plugin.needs = None
        store.wait_dispatched(10)
        reached = store.log.max_physical_offset
        assert store.clean_log(config=RetentionConfig(max_bytes=3 * SIZE)).removed
        fill(store, 9)
        store.suspend_plugin("notes")
        later = store.clean_log()
    with open_with(tmp_path, Notes(), max_bytes=SIZE) as store:
        unknown = store.clean_log()

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
        report = store.clean_log()
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
        report = store.clean_log()
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
        kept = store.clean_log()
        dropped = store.clean_log(config=RetentionConfig(max_bytes=SIZE, unseen="drop"))
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
        report = store.clean_log()

    assert report.removed == ()
    assert {hold.reason.partition(",")[0] for hold in report.plan.holds} >= {"it does not run"}


def test_what_was_not_flushed_of_a_plugin_is_kept(tmp_path):
    # After a crash its files are what they were at the last flush, and the rest comes again.
    def refuse(self):
        raise OSError(errno.EIO, "no")

    plugin = type("F", (Deriving,), {"reput_flush": reput.hookimpl(refuse)})()
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 4)
        report = store.clean_log()
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
        report = store.clean_log()

        assert report.removed == ()
        assert state_of(store).state == "suspended"
        assert state_of(store, "deriving").state == "running"


def test_one_that_fails_when_it_is_told_is_suspended_and_the_others_are_told(tmp_path):
    def fail(self, min_physical_offset):
        raise ValueError("no")

    bad, good = notes("bad", reput_trim=fail), Notes()
    with open_with(tmp_path, bad, good, max_bytes=SIZE) as store:
        fill(store, 4)
        report = store.clean_log()

        assert report.untold == ("bad",)
        assert good.told == [3 * SIZE]
        assert state_of(store, "bad").state == "suspended"


def test_one_that_hangs_when_it_is_asked_holds_up_nobody_for_long(tmp_path):
    gate = threading.Event()
    plugin = Notes(needs=lambda: gate.wait(30) and None)
    try:
        with open_with(tmp_path, plugin, Deriving(), threads=True, max_bytes=SIZE) as store:
            fill(store, 4)
            held = store.clean_log()
            state = state_of(store).state
            gate.set()
            until(lambda: store.clean_log().min_physical_offset == 3 * SIZE)
            back = state_of(store).state

        assert held.removed == ()
        assert (state, back) == ("stalled", "running")
    finally:
        gate.set()


def test_a_plugin_that_is_resumed_or_added_is_told_what_it_missed(tmp_path):
    plugin = notes(reput_hold=lambda self: None)
    with open_with(tmp_path, plugin, max_bytes=2 * SIZE, unseen="drop") as store:
        fill(store, 4)
        store.suspend_plugin("notes")
        first = store.clean_log()
        nothing_said = list(plugin.told)
        marked = (tmp_path / "reput" / "trimming").exists()
        store.resume_plugin("notes")
        second = store.clean_log()

    assert (first.untold, nothing_said, marked) == (("notes",), [], True)
    assert (second.removed, second.untold, plugin.told) == ((), (), [2 * SIZE])
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
            store.clean_log()
        monkeypatch.undo()
    plugin = Notes()
    with open_with(tmp_path, plugin, max_bytes=0) as store:  # with options or without
        due = store.work()

    assert plugin.told == [2 * SIZE]
    assert due is None
    assert not (tmp_path / "reput" / "trimming").exists()


def test_a_warning_is_given_once_as_long_as_the_same_ones_hold(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "reput.cleaning")
    plugin = Notes(needs=0)
    with open_with(tmp_path, plugin, max_bytes=SIZE) as store:
        fill(store, 3)
        for _ in range(3):
            store.clean_log()
        once = [record for record in caplog.records if "kept beyond" in record.message]
        plugin.needs = None
        store.clean_log()
        plugin.needs = 0
        fill(store, 4)
        store.clean_log()
        twice = [record for record in caplog.records if "kept beyond" in record.message]

    assert (len(once), len(twice)) == (1, 2)
    assert "plugin=notes" in once[0].message


# --------------------------------------------------------------------------- queue offsets


def test_a_queue_that_lost_all_its_messages_goes_on_where_it_was_also_without_a_plugin(tmp_path):
    with open_with(tmp_path) as store:
        for number in range(3):
            assert store.put(reput.Message("Old", b"%d" % number, 7)).queue_offset == number
        fill(store, 5)
        newest = store.log.queue_offsets["T", 0]
        store.clean_log(config=RetentionConfig(max_bytes=SIZE))
    with open_with(tmp_path) as store:
        assert store.put(reput.Message("Old", b"again", 7)).queue_offset == 3
        assert store.put(reput.Message("T", b"again")).queue_offset == newest


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"Old": 3}', '{"Old": {"7": -1}}', '{"Old": {"x": 1}}']
)
def test_a_damaged_file_of_queue_offsets_is_passed_over(tmp_path, text):
    with open_with(tmp_path) as store:
        store.put(reput.Message("T", b"1"))
    (tmp_path / "reput" / "queue-offsets.json").write_text(text)
    with open_with(tmp_path) as store:
        assert store.put(reput.Message("T", b"2")).queue_offset == 1


def test_queue_offsets_that_are_written_down_are_on_disk_before(tmp_path):
    with open_with(tmp_path) as store:
        fill(store, 4)
        store.clean_log(config=RetentionConfig(max_bytes=SIZE))
        floors = json.loads((tmp_path / "reput" / "queue-offsets.json").read_text())

        assert floors == {"T": {"0": store.log.queue_offsets["T", 0]}}
        assert store.log.flushed_offset == store.log.max_physical_offset


# --------------------------------------------------------------------------- readers


def test_who_reads_when_the_head_goes_gets_the_message_or_a_clear_error(tmp_path):
    with open_with(tmp_path, Deriving(), log={"window_size": 4096}) as store:
        fill(store, 6)
        expected = [int(o) for batch in store.scan() for o in batch.physical_offset]
        with reput.open(tmp_path, "r", plugins=[Deriving()], disk=QuickDisk()) as reader:
            scans = [store.scan(), reader.scan()]
            begun = [next(scan).physical_offset.tolist() for scan in scans]
            store.clean_log(config=RetentionConfig(max_bytes=2 * SIZE))

            for scan, first in zip(scans, begun, strict=True):
                rest = []
                for batch in scan:
                    assert batch.finding is None
                    rest += batch.physical_offset.tolist()
                seen = first + rest
                # A descriptor that is open goes on showing a file that has lost its name.
                assert seen == [o for o in expected if o in set(seen)]
                assert set(seen) >= {o for o in expected if o >= 4 * SIZE}
            with pytest.raises(OffsetOutOfRangeError, match="does not hold it"):
                store.get(0)
            assert reader.get(0).physical_offset == 0  # it has the file open
            for each in (store, reader):
                assert each.get(4 * SIZE).physical_offset == 4 * SIZE
                assert next(iter(each.scan())).start_offset == 4 * SIZE


# --------------------------------------------------------------------------- a full disk


def crowded(path, capacity, others=0):
    disk = QuickDisk()
    disk.capacity, disk.capacity_below, disk.others = capacity, str(path), others
    return disk


def test_a_disk_that_fills_takes_the_oldest_files(tmp_path):
    clock = ManualClock()
    disk = crowded(tmp_path, 100 * SIZE, others=80 * SIZE)
    with open_with(tmp_path, Notes(), clock=clock, disk=disk, disk_force_ratio=0.9) as store:
        fill(store, 13)
        store.work()
        clock.advance(10_000)
        store.work()
        used, available = disk.usage(str(tmp_path))

        assert 100 * used <= 90 * (used + available)
        assert 6 <= len(bases(store)) < 10  # and no more than that


def test_beyond_the_last_ratio_puts_are_refused_until_there_is_space_again(tmp_path):
    clock = ManualClock()
    disk = crowded(tmp_path, 100 * SIZE)
    with open_with(tmp_path, Notes(), clock=clock, disk=disk, disk_warn_ratio=0.9) as store:
        store.put(reput.Message("T", b"1"))
        disk.others = 95 * SIZE
        store.put(reput.Message("T", b"not looked yet"))
        store.work()
        clock.advance(10_000)
        store.work()
        with pytest.raises(DiskFullError, match="is full; make room") as refused:
            store.put(reput.Message("T", b"2"))
        with pytest.raises(DiskFullError):
            store.put_many([reput.Message("T", b"2")])
        facts = store.report()["retention"]
        disk.others = 0
        clock.advance(999)
        with pytest.raises(DiskFullError):  # the disk is looked at once a second
            store.put(reput.Message("T", b"2"))
        clock.advance(1)
        store.put(reput.Message("T", b"2"))
        later = store.report()["retention"]

        assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert refused.value.errno == errno.ENOSPC
        assert (facts["is_disk_full"], later["is_disk_full"]) == (True, False)
        assert sum(len(batch) for batch in store.scan()) == 3


def test_a_store_on_a_full_disk_opens_and_is_read_and_takes_no_puts(tmp_path):
    with open_with(tmp_path, Notes()) as store:
        receipt = store.put(reput.Message("T", b"1"))
    disk = crowded(tmp_path, 100 * SIZE, others=99 * SIZE)
    with open_with(tmp_path, Notes(), disk=disk, disk_warn_ratio=0.9) as store:
        assert store.get(receipt.physical_offset).body == b"1"
        with pytest.raises(DiskFullError):
            store.put(reput.Message("T", b"2"))
        store.add_plugin(Deriving())  # who comes does not open the door
        with pytest.raises(DiskFullError):
            store.put(reput.Message("T", b"2"))


def test_a_plugin_whose_puts_are_refused_is_not_suspended_for_it(tmp_path):
    class Putting(Deriving):
        name = "putting"

        @reput.hookimpl
        def reput_open(self, context):
            self.context = context

        @reput.hookimpl
        def reput_work(self, now):
            self.context.store.put_many([reput.Message("T", b"delivered")])

    disk = crowded(tmp_path, 100 * SIZE, others=99 * SIZE)
    clock = ManualClock()
    with open_with(tmp_path, Putting(), disk=disk, clock=clock, disk_warn_ratio=0.9) as store:
        for _ in range(4):
            store.work()
        during = state_of(store, "putting").state
        disk.others = 0
        clock.advance(10_000)
        store.work()
        store.work()

        assert during == "running"
        assert sum(len(batch) for batch in store.scan()) >= 1


def test_a_disk_without_any_room_is_cleaned_all_the_same(tmp_path):
    class Full(FaultyDisk):
        """No new byte fits until a file was removed."""

        is_full = False

        def _before(self, operation, path):
            if operation == "remove":
                self.is_full = False
            if self.is_full and operation in ("create", "write") and path.endswith(".new"):
                raise OSError(errno.ENOSPC, "no space", path)

    disk = Full()
    with open_with(tmp_path, Notes(), disk=disk) as store:
        fill(store, 5)
        store.flush()
        disk.is_full = True
        report = store.clean_log(config=RetentionConfig(max_bytes=SIZE))

        assert len(report.removed) == 4
        assert (tmp_path / "reput" / "queue-offsets.json").exists()


def test_a_file_that_cannot_be_removed_is_an_error_that_names_it_and_costs_nothing(tmp_path):
    disk = FaultyDisk(1, error=errno.EACCES, operations={"remove"}, below="commitlog")
    disk.mend()
    with open_with(tmp_path, Notes(), disk=disk) as store:
        fill(store, 4)
        rows = sum(len(batch) for batch in store.scan())
        disk.plan(1, error=errno.EACCES, operations={"remove"}, below="commitlog")
        with pytest.raises(OSError, match="Permission denied"):
            store.clean_log(config=RetentionConfig(max_bytes=SIZE))
        disk.mend()
        store.put(reput.Message("T", b"more"))
    with open_with(tmp_path, Notes()) as store:
        assert sum(len(batch) for batch in store.scan()) == rows + 1


# --------------------------------------------------------------------------- in the background


def test_with_threads_files_go_by_themselves(tmp_path):
    clock = ManualClock()
    plugin = Notes()
    options = {"max_bytes": 2 * SIZE, "check_interval_ms": 1}
    with open_with(tmp_path, plugin, clock=clock, threads=True, **options) as store:
        # Files go while others come: by places, as nobody knows how many there are at a time.
        for last in (5, 12):
            while bases(store)[-1:] != [last * SIZE]:
                store.put(reput.Message("T", b"x" * 900))
            store.wait_dispatched(10)

            def has_gone(low=(last - 1) * SIZE):
                clock.advance(10)
                store.work()  # wakes the thread: nobody need wait for its second
                return bases(store)[0] == low and plugin.told[-1:] == [low]

            until(has_gone)
        until(lambda: store.report()["retention"]["removed_count"] == 11)

        assert store.report()["retention"]["removed_size"] == 11 * SIZE
        assert names(tmp_path) == [f"{11 * SIZE:020d}", f"{12 * SIZE:020d}"]


def test_a_store_that_was_closed_while_a_plugin_was_asked_removes_nothing(tmp_path):
    gate, asked = threading.Event(), threading.Event()
    reports = []

    def needs():
        asked.set()
        gate.wait(30)

    plugin = Notes(needs=needs)
    store = open_with(tmp_path, plugin, threads=True)
    fill(store, 4)
    config = RetentionConfig(max_bytes=SIZE)
    thread = threading.Thread(target=lambda: reports.append(store.clean_log(config=config)))
    thread.start()
    assert asked.wait(10)
    store._cleaner.stop()  # what `close` does behind the workers
    gate.set()
    thread.join(10)
    store.close()

    assert [report.removed for report in reports] == [()]
    assert len(names(tmp_path)) == 4


def test_no_plugin_can_have_the_sections_name(tmp_path):
    with pytest.raises(PluginError, match="section of the core"):
        open_with(tmp_path, notes("retention"))

"""Old files go: when, which, and what is left behind."""

from __future__ import annotations

import json
import os

import pytest
from retainedstores import (
    HOUR,
    SIZE,
    Deriving,
    Notes,
    bases,
    fill,
    names,
    notes,
    open_with,
)

import reput
from reput.dispatch.records.manifest import Manifest
from reput.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    ReadOnlyStoreError,
)
from reput.retention.config import RetentionConfig
from reput_testing import ManualClock, QuickDisk, snapshot

pytestmark = pytest.mark.usefixtures("quiet")


# --------------------------------------------------------------------------- what goes


def test_without_options_nothing_goes_however_old_it_is(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock) as store:
        fill(store, 4)
        clock.advance(10_000 * HOUR)

        due = store.work()
        report = store.expire_log()

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
        store.expire_log(config=RetentionConfig(reserved_ms=1, delete_when="14"))
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
        young = store.expire_log(dry_run=True, config=RetentionConfig(reserved_ms=3 * HOUR))
        old = store.expire_log(dry_run=True, config=RetentionConfig(reserved_ms=HOUR))

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
        report = store.expire_log(dry_run=True, config=RetentionConfig(max_bytes=SIZE))

    assert report.plan.removals[0].last_timestamp == 4_000_000_000


def test_a_dry_run_changes_no_byte(tmp_path):
    clock = ManualClock()
    plugin = Notes()
    with open_with(tmp_path, plugin, clock=clock, max_bytes=SIZE) as store:
        fill(store, 5)
        before = snapshot(tmp_path)
        report = store.expire_log(dry_run=True)
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
        report = store.expire_log(dry_run=True)
        facts = store.report()["retention"]
        with pytest.raises(ReadOnlyStoreError):
            store.expire_log()

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
        store.expire_log(config=RetentionConfig(max_bytes=2 * SIZE))
        receipt = store.put(reput.Message("T", b"more"))
        rows = sum(len(batch) for batch in store.scan())
    again = Notes()
    with open_with(tmp_path, again) as store:
        assert store.clean
        assert store.log.min_physical_offset == 3 * SIZE
        assert store.get(receipt.physical_offset).body == b"more"
        assert sum(len(batch) for batch in store.scan(check_crc=True)) == rows
        assert store.losses() == []


# --------------------------------------------------------------------------- queue offsets


def test_a_queue_that_lost_all_its_messages_goes_on_where_it_was_also_without_a_plugin(tmp_path):
    with open_with(tmp_path) as store:
        for number in range(3):
            assert store.put(reput.Message("Old", b"%d" % number, 7)).queue_offset == number
        fill(store, 5)
        newest = store.log.queue_offsets["T", 0]
        store.expire_log(config=RetentionConfig(max_bytes=SIZE))
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
        store.expire_log(config=RetentionConfig(max_bytes=SIZE))
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
            store.expire_log(config=RetentionConfig(max_bytes=2 * SIZE))

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

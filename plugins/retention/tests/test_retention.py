"""Old files go: when, which, and what is recorded."""

from __future__ import annotations

import json
import logging
import os
import random
import threading

import pytest
from statefiles import change_manifest, manifest_of
from trimmedstores import HOUR, SIZE, Notes, bases, fill, names, notes, open_with

import reput
from reput.errors import ConfigError, ReadOnlyStoreError, StoreClosedError
from reput_retention import RetentionConfig, RetentionPlugin, expire_log
from reput_testing import FaultyDisk, ManualClock, QuickDisk, snapshot

pytestmark = pytest.mark.usefixtures("quiet")


# --------------------------------------------------------------------------- what goes


def test_without_options_nothing_goes_however_old_it_is(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock) as store:
        fill(store, 4)
        clock.advance(10_000 * HOUR)

        due = store.work()
        report = expire_log(store)

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
    with open_with(tmp_path, Notes(), clock=clock, max_bytes=SIZE) as store:
        fill(store, 26)
        store.work()
        clock.advance(10_000)

        seen = []
        while (due := store.work()) is not None and due <= clock.now:
            seen.append(len(bases(store)))

        assert seen == [16, 6]
        assert len(bases(store)) == 1


def test_the_hour_is_waited_for_in_the_background_only(tmp_path):
    clock = ManualClock()  # noon, UTC
    options = {"reserved_ms": 1, "delete_when": "14"}
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
        expire_log(store, config=RetentionConfig(reserved_ms=1, delete_when="14"))
        clock_stands = len(bases(store))

    assert counts == [3, 3, 1, 1]
    assert clock_stands == 3  # nothing is older than a millisecond there


def test_age_is_the_last_messages_and_not_the_files(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock, unseen="keep") as store:
        fill(store, 3)
    for name in names(tmp_path):
        os.utime(tmp_path / "commitlog" / name)  # as a copy would
    clock.advance(2 * HOUR)
    with open_with(tmp_path, Notes(), clock=clock, unseen="keep") as store:
        young = expire_log(store, dry_run=True, config=RetentionConfig(reserved_ms=3 * HOUR))
        old = expire_log(store, dry_run=True, config=RetentionConfig(reserved_ms=HOUR))

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
        report = expire_log(store, dry_run=True, config=RetentionConfig(max_bytes=SIZE))

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
        facts = store.report()["plugins"]["retention"]
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
        assert store.plugin("retention").config.max_bytes == 9 * SIZE
    assert manifest_of(tmp_path).config["retention"] == {"max_bytes": 9 * SIZE}


def test_a_wrong_option_keeps_the_store_from_opening_and_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match="delete_when"):
        open_with(tmp_path / "new", Notes(), delete_when="noon")

    assert not (tmp_path / "new").exists()


def test_a_store_that_is_closed_removes_nothing(tmp_path):
    with open_with(tmp_path, Notes(), max_bytes=SIZE) as store:
        fill(store, 3)
        expire = store.expire_log
    for dry_run in (True, False):
        with pytest.raises(StoreClosedError):
            expire(dry_run=dry_run)


@pytest.mark.parametrize("options", [{"dry_run": "no"}, {"config": {"max_bytes": 1}}])
@pytest.mark.parametrize("is_used", [True, False])
def test_an_argument_of_a_wrong_type_is_named(tmp_path, options, is_used):
    with open_with(tmp_path, **({"max_bytes": 1} if is_used else {})) as store:
        with pytest.raises(TypeError, match=next(iter(options))):
            expire_log(store, **options)


def test_any_store_can_be_cleaned_also_one_without_the_plugin(tmp_path):
    plugin = Notes()
    with open_with(tmp_path, plugin) as store:
        fill(store, 4)
        report = expire_log(store, config=RetentionConfig(max_bytes=2 * SIZE))

        assert [each.base_offset for each in report.removed] == [0, SIZE]
        assert plugin.told == [2 * SIZE]
        assert not hasattr(store, "expire_log")


def test_files_that_cannot_be_removed_are_tried_again_and_the_plugin_runs_on(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "reput_retention")
    clock = ManualClock()
    disk = FaultyDisk(1, operations={"remove"}, below="commitlog", lasting=True)
    disk.mend()
    with open_with(tmp_path, Notes(), clock=clock, disk=disk, max_bytes=SIZE) as store:
        fill(store, 3)
        disk.plan(1, operations={"remove"}, below="commitlog", lasting=True)
        for _ in range(9):
            store.work()
            clock.advance(10_000)
        stayed = len(bases(store))
        disk.mend()
        store.work()

        assert (stayed, len(bases(store))) == (3, 1)
        assert {state.state for state in store.plugins()} == {"running"}
    assert [record for record in caplog.records if "tried again" in record.message]


def test_a_warning_is_given_once_as_long_as_the_same_ones_hold(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "reput_retention")
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


def test_a_store_without_the_plugin_keeps_everything_and_starts_no_thread_for_it(tmp_path):
    clock = ManualClock()
    with open_with(tmp_path, Notes(), clock=clock, threads=True) as store:
        fill(store, 4)
        clock.advance(10_000 * HOUR)
        store.work()
        store.flush()

        assert not [each.name for each in threading.enumerate() if "retention" in each.name]
        assert len(bases(store)) == 4


def test_options_that_keep_everything_keep_no_thread(tmp_path):
    plugin = RetentionPlugin()
    with open_with(tmp_path, Notes(), plugin, clock=ManualClock(), threads=True) as store:
        fill(store, 4)
        for thread in [each for each in threading.enumerate() if "retention" in each.name]:
            thread.join(60)
        store.flush()
        kept = [each for each in threading.enumerate() if "retention" in each.name]
        removed = plugin.expire_log().removed

    assert (kept, list(removed)) == ([], [])


def test_a_manifest_from_before_is_followed_and_names_the_plugin_from_then_on(tmp_path, caplog):
    with open_with(tmp_path, Notes(), max_bytes=2 * SIZE) as store:
        fill(store, 5)

    def without_the_name(text):
        manifest = json.loads(text)
        manifest["plugins"].remove("retention")
        manifest["config"]["retention"]["check_interval_ms"] = 1
        return json.dumps(manifest).encode()

    change_manifest(tmp_path, without_the_name)
    caplog.set_level(logging.WARNING, "reput")

    with reput.open(tmp_path, plugins=[Notes()], threads=False, disk=QuickDisk()) as store:
        assert len(store.expire_log().removed) == 3

    found = manifest_of(tmp_path)
    assert found.plugins == ("notes", "retention")
    assert found.config["retention"] == {"max_bytes": 2 * SIZE}
    assert [each for each in caplog.records if "option=check_interval_ms" in each.message]


@pytest.mark.parametrize("seed", range(3))
def test_a_clock_that_jumps_removes_no_file_whose_last_message_is_young(tmp_path, seed):
    chance, clock, removed_count = random.Random(f"jumps {seed}"), ManualClock(), 0
    with open_with(tmp_path, Notes(), clock=clock, reserved_ms=72 * HOUR) as store:
        for _ in range(30):
            store.put(reput.Message("T", b"x" * chance.choice((100, 900, 1_500))))
            clock.advance(chance.choice((0, 1_000, HOUR, 60 * HOUR, -HOUR, -100 * HOUR)))
            store.wait_dispatched(10)
            newest = {}  # store time of the last message of each file
            for batch in store.scan():
                files = (batch.physical_offset // SIZE * SIZE).tolist()
                newest.update(zip(files, batch.store_timestamp.tolist(), strict=True))

            store.work()

            for base in newest.keys() - set(bases(store)):
                removed_count += 1
                assert clock.now - newest[base] >= 72 * HOUR
        assert removed_count

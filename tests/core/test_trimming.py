"""The oldest files of the log go: which, what is left behind, and what a reader sees."""

from __future__ import annotations

import errno
import json
import shutil
import threading

import pytest
from openstores import until
from statefiles import put_value, value_of
from trimmedstores import (
    SIZE,
    Deriving,
    Notes,
    bases,
    fill,
    holders,
    keep,
    names,
    open_with,
    removed,
)

import reput
from reput.errors import OffsetOutOfRangeError, ReadOnlyStoreError, StoreClosedError
from reput_testing import FaultyDisk, QuickDisk, snapshot
from reput_testing.crashes.storeinternals import store_internals

pytestmark = pytest.mark.usefixtures("quiet")


# --------------------------------------------------------------------------- which files


@pytest.mark.parametrize(
    ("physical_offset", "count"),
    [(-1, 0), (0, 0), (SIZE - 1, 0), (SIZE, 1), (2 * SIZE + 1, 2), (3 * SIZE, 3), (1 << 62, 3)],
)
def test_whole_files_below_the_offset_go_and_never_the_last(tmp_path, physical_offset, count):
    plugin = Notes()
    with open_with(tmp_path, plugin) as store:
        fill(store, 4)
        before = snapshot(tmp_path)
        planned = store.trim_log(physical_offset, dry_run=True)
        assert (snapshot(tmp_path), plugin.told) == (before, [])
        report = store.trim_log(physical_offset)

        assert removed(report) == removed(planned) == [n * SIZE for n in range(count)]
        assert store.log.min_physical_offset == count * SIZE
        assert names(tmp_path) == [f"{n * SIZE:020d}" for n in range(count, 4)]
        assert plugin.told == ([count * SIZE] if count else [])


def test_the_file_of_the_last_message_stays_also_if_another_follows(tmp_path):
    with open_with(tmp_path) as store:
        fill(store, 3)
        end = store.log.max_physical_offset
    (tmp_path / "commitlog" / f"{3 * SIZE:020d}").write_bytes(bytes(SIZE))
    with reput.open(tmp_path, "r", plugins=[]) as store:
        assert len(bases(store)) == 4
        report = keep(store, 1, dry_run=True)

    assert removed(report) == [0, SIZE]
    assert holders(report, 3 * SIZE) == [("", end)]


def test_a_reader_says_what_would_go_and_removes_nothing(tmp_path):
    with open_with(tmp_path, Notes()) as store:
        fill(store, 5)
    before = snapshot(tmp_path)
    with reput.open(tmp_path, "r", plugins=[Notes()]) as store:
        report = store.trim_log(3 * SIZE, dry_run=True)
        with pytest.raises(ReadOnlyStoreError):
            store.trim_log(3 * SIZE)

    assert removed(report) == [0, SIZE, 2 * SIZE]
    assert snapshot(tmp_path) == before


def test_a_store_that_is_closed_removes_nothing(tmp_path):
    with open_with(tmp_path, Notes()) as store:
        fill(store, 3)
    for dry_run in (True, False):
        with pytest.raises(StoreClosedError):
            store.trim_log(SIZE, dry_run=dry_run)

    assert len(names(tmp_path)) == 3


# --------------------------------------------------------------------------- by a plugin


class Trimming(Deriving):
    """Trims the log in its work, to the last file."""

    name = "trimming"
    reports = ()

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context

    @reput.hookimpl
    def reput_work(self, now):
        offsets = self.context.log.file_offsets
        if len(offsets) == 4:
            self.reports = (*self.reports, self.context.store.trim_log(offsets[-1]))

    @reput.hookimpl
    def reput_hold(self):
        raise AssertionError("a plugin knows what it needs itself")

    @reput.hookimpl
    def reput_trim(self, min_physical_offset):
        raise AssertionError("a plugin knows what it has removed itself")


def test_a_plugin_may_trim_and_is_not_asked_itself(tmp_path):
    plugin, other = Trimming(), Notes()
    with open_with(tmp_path, plugin, other) as store:
        fill(store, 4)
        store.work()

        assert removed(plugin.reports[-1]) == [0, SIZE, 2 * SIZE]
        assert other.told == [3 * SIZE]
        assert store.plugins()[1].last_error is None


@pytest.mark.parametrize("change", ["suspend_plugin", "remove_plugin"])
def test_a_plugin_that_is_stopped_while_it_trims_gives_up_at_once(tmp_path, change):
    gate, asked = threading.Event(), threading.Event()

    def needs():
        asked.set()
        gate.wait(10)

    plugin, other = Trimming(), Notes(needs=needs)
    with open_with(tmp_path, plugin, other, threads=True, rules={"stall_ms": 60_000}) as store:
        fill(store, 4)
        store.work()
        assert asked.wait(10)
        # The change waits for the plugin, and has the lock that the plugin waits for.
        changing = threading.Thread(target=lambda: getattr(store, change)("trimming"))
        changing.start()
        until(lambda: not store_internals(store).loop.board.runners["trimming"].is_active)
        gate.set()
        changing.join(10)

        assert not changing.is_alive()
        assert len(names(tmp_path)) == 4


def test_what_follows_is_stored_and_opened_as_if_nothing_had_been(tmp_path):
    with open_with(tmp_path, Notes()) as store:
        fill(store, 5)
        keep(store, 2)
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
        keep(store, 1)
    with open_with(tmp_path) as store:
        assert store.put(reput.Message("Old", b"again", 7)).queue_offset == 3
        assert store.put(reput.Message("T", b"again")).queue_offset == newest


@pytest.mark.parametrize(
    "text", [b"\n", b"[]", b"{", b'{"Old": 3}', b'{"Old": {"7": -1}}', b'{"Old": {"x": 1}}']
)
def test_floors_that_cannot_be_read_are_passed_over(tmp_path, text):
    with open_with(tmp_path) as store:
        store.put(reput.Message("T", b"1"))
    put_value(tmp_path, ".floors", text)
    with open_with(tmp_path) as store:
        assert store.put(reput.Message("T", b"2")).queue_offset == 1


def test_queue_offsets_that_are_written_down_are_on_disk_before(tmp_path):
    with open_with(tmp_path) as store:
        fill(store, 4)
        keep(store, 1)
        floors = json.loads(value_of(tmp_path, ".floors"))

        assert floors == {"T": {"0": store.log.queue_offsets["T", 0]}}
        assert store.log.flushed_offset == store.log.max_physical_offset


# --------------------------------------------------------------------------- readers


@pytest.mark.sizes(commitlog={"window_size": 4096})
def test_who_reads_when_the_head_goes_gets_the_message_or_a_clear_error(tmp_path):
    with open_with(tmp_path, Deriving()) as store:
        fill(store, 6)
        expected = [int(o) for batch in store.scan() for o in batch.physical_offset]
        with reput.open(tmp_path, "r", plugins=[Deriving()], disk=QuickDisk()) as reader:
            scans = [store.scan(), reader.scan()]
            begun = [next(scan).physical_offset.tolist() for scan in scans]
            keep(store, 2)

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


@pytest.mark.parametrize("overwrites", [True, False])
def test_a_disk_without_any_room_is_cleaned_all_the_same(tmp_path, overwrites):
    root, killed = tmp_path / "store", tmp_path / "killed"

    class Full(FaultyDisk):
        """No new byte fits until a file was removed."""

        is_full = is_freed = False

        def _before(self, operation, path):
            if self.is_freed and not killed.exists():
                shutil.copytree(root, killed)  # as a kill leaves it after the first removal
            if operation == "remove":
                self.is_freed, self.is_full = self.is_full, False
            writes = operation in ("create", "write")
            if self.is_full and writes and (path.endswith(".new") or not overwrites):
                raise OSError(errno.ENOSPC, "no space", path)

    disk = Full()
    with open_with(root, Notes(), disk=disk) as store:
        fill(store, 5)
        store.flush()
        disk.is_full = True
        report = keep(store, 1)

        assert removed(report) == [n * SIZE for n in range(4)]
        assert value_of(root, ".floors")
    with open_with(killed, Notes()) as store:
        assert [each.end_offset for each in store.losses()] == ([] if overwrites else [SIZE])


def test_a_file_that_cannot_be_removed_is_an_error_that_names_it_and_costs_nothing(tmp_path):
    disk = FaultyDisk(1, error=errno.EACCES, operations={"remove"}, below="commitlog")
    disk.mend()
    with open_with(tmp_path, Notes(), disk=disk) as store:
        fill(store, 4)
        rows = sum(len(batch) for batch in store.scan())
        disk.plan(1, error=errno.EACCES, operations={"remove"}, below="commitlog")
        with pytest.raises(OSError, match="Permission denied"):
            keep(store, 1)
        assert sum(len(batch) for batch in store.scan()) == rows
        disk.mend()
        store.put(reput.Message("T", b"more"))
    with open_with(tmp_path, Notes()) as store:
        assert sum(len(batch) for batch in store.scan()) == rows + 1


def test_a_store_that_was_closed_while_a_plugin_was_asked_removes_nothing(tmp_path):
    gate, asked = threading.Event(), threading.Event()
    reports = []

    def needs():
        asked.set()
        gate.wait(30)

    plugin = Notes(needs=needs)
    store = open_with(tmp_path, plugin, threads=True)
    fill(store, 4)
    thread = threading.Thread(target=lambda: reports.append(keep(store, 1)))
    thread.start()
    assert asked.wait(10)
    store_internals(store).trimming.stop()  # what `close` does behind the workers
    gate.set()
    thread.join(10)
    store.close()

    assert [removed(report) for report in reports] == [[]]
    assert len(names(tmp_path)) == 4

"""A full disk takes old files and refuses puts; and what happens by itself."""

from __future__ import annotations

import errno

import pytest
from openstores import state_of, until
from trimmedstores import SIZE, Deriving, Notes, bases, fill, names, open_with

import reput
from reput.errors import DiskFullError
from reput.status import PutStatus
from reput_testing import ManualClock, QuickDisk

pytestmark = pytest.mark.usefixtures("quiet")


# --------------------------------------------------------------------------- a full disk


def crowded(path, capacity, others=0):
    disk = QuickDisk()
    disk.capacity, disk.capacity_below, disk.others = capacity, str(path), others
    return disk


def test_a_disk_that_fills_takes_the_oldest_files(tmp_path):
    clock = ManualClock()
    disk = crowded(tmp_path, 100 * SIZE, others=78 * SIZE)
    with open_with(tmp_path, Notes(), clock=clock, disk=disk, disk_warn_ratio=0.9) as store:
        fill(store, 13)
        store.work()
        for _ in range(2):  # what the first removal writes down takes space, too
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
        facts = store.report()["plugins"]["retention"]
        disk.others = 0
        clock.advance(999)
        with pytest.raises(DiskFullError):  # the disk is looked at once a second
            store.put(reput.Message("T", b"2"))
        clock.advance(1)
        store.put(reput.Message("T", b"2"))
        later = store.report()["plugins"]["retention"]

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
        store.add_plugin(Deriving())  # a new plugin does not allow puts again
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


# --------------------------------------------------------------------------- in the background


def test_with_threads_files_go_by_themselves(tmp_path):
    clock = ManualClock()
    plugin = Notes()
    options = {"max_bytes": 2 * SIZE}
    with open_with(tmp_path, plugin, clock=clock, threads=True, **options) as store:
        # Files go while others come: by places, as nobody knows how many there are at a time.
        for last in (5, 12):
            while bases(store)[-1:] != [last * SIZE]:
                store.put(reput.Message("T", b"x" * 900))
            store.wait_dispatched(10)

            def has_gone(low=(last - 1) * SIZE):
                clock.advance(10_000)
                store.work()  # wakes the thread: nobody need wait for its second
                return bases(store)[0] == low and plugin.told[-1:] == [low]

            until(has_gone)
        until(lambda: store.report()["plugins"]["retention"]["removed_count"] == 11)

        assert store.report()["plugins"]["retention"]["removed_size"] == 11 * SIZE
        assert names(tmp_path) == [f"{11 * SIZE:020d}", f"{12 * SIZE:020d}"]

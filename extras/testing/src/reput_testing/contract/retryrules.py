"""Contract tests about going on after a failure: messages, or the opening, are tried again."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.files import is_disk_full
from reput_testing.casebudget import part
from reput_testing.contract.basecontract import Outcome, spread
from reput_testing.contract.driver import Driver
from reput_testing.contract.promises import shows
from reput_testing.contract.storerules import StoreRules
from reput_testing.disks.failingdisk import FaultyDisk
from reput_testing.logs.clock import ManualClock

_FAILING = frozenset({"create", "write", "allocate", "truncate", "rename", "remove"})
_WRITING = _FAILING | {"make_directory"}
_TRIES = 12  # calls of a hook, of which a few find the disk full
_FAULTS = 24  # calls of the disk that fail, evenly spread


class RetryRules(StoreRules):
    """Rules for a plugin that has failed and is tried again."""

    @shows("caught-up")
    def test_a_failed_dispatch_can_be_tried_again(self, tmp_path: Path) -> None:
        """The disk fails once in a dispatch; the same object gets the same messages again."""
        log = self.log()
        expected = self.build(tmp_path / "sound", log)
        calls = self._count_calls(tmp_path / "counted")
        if not calls:
            pytest.skip("a dispatch of the plugin writes nothing through its disk")
        for nth in spread(calls, _FAULTS)[1:]:
            disk = FaultyDisk(error=errno.ENOSPC, operations=_FAILING)
            with self.driver(tmp_path / str(nth), log, disk=disk) as driver:
                disk.fail_at = len(disk.calls) + nth
                failed = False
                for batch in log.batches(driver.dispatched_to, range(0, len(log.starts), 5)):
                    try:
                        driver.dispatch(batch)
                    except OSError:
                        failed = True
                        driver.dispatch(batch)
                disk.fail_at = None
                found = self.outcome(driver)
            what = f"disk call {nth} of a dispatch failed, then it came again (failed={failed})"
            self.assert_same(found, expected, what)

    @shows("full-disk")
    def test_a_disk_that_is_full_for_a_while_stops_nothing(self, tmp_path: Path) -> None:
        """A hook that finds the disk full is called again until there is space, a flush, too."""
        log = self.log()
        expected = self.build(tmp_path / "sound", log)
        counting = FaultyDisk(operations=_WRITING)
        self._go_on(self.driver(tmp_path / "counting", log, disk=counting), counting)
        if not counting.calls:
            pytest.skip("the plugin writes nothing through its disk")
        for nth in part(spread(len(counting.calls), self.max_damages // 2)[1:]):
            for count in (1, 4):
                disk = FaultyDisk(nth, count=count, operations=_WRITING)
                driver = self.driver(tmp_path / f"{nth} {count}", log, disk=disk)
                found = self._go_on(driver, disk)
                operation, path = disk.calls[nth - 1]
                what = f"{operation} of {path}: the disk was full for {count} calls from {nth} on"
                self.assert_same(found, expected, what)

    def _go_on(self, driver: Driver, disk: FaultyDisk) -> Outcome:
        """Open, dispatch and flush; call each hook until it finds space."""
        log = driver.log
        try:
            self._until_done(lambda: self._open(driver))
            for number, batch in enumerate(log.batches(0, range(0, len(log.starts), 5))):
                self._until_done(lambda: driver.dispatch(batch))  # noqa: B023 - called at once
                if number % 3 == 0:
                    self._until_done(driver.flush)
            self._until_done(driver.flush)
            disk.mend()  # closing is tried once only
            return self.outcome(driver)
        finally:
            driver.close()

    def _open(self, driver: Driver) -> None:
        try:
            driver.open()
        except OSError:
            driver.close()
            raise

    def _until_done(self, call: Callable[[], object]) -> None:
        for _ in range(_TRIES):
            try:
                call()
            except OSError as error:
                if not is_disk_full(error):
                    raise
            else:
                return
        pytest.fail(f"the hook still finds the disk full in call {_TRIES}, though there is space")

    @shows("caught-up")
    def test_a_plugin_may_be_opened_once_more(self, tmp_path: Path) -> None:
        """After a close the same object can be opened again and behaves like a new one."""
        log = self.log()
        expected = self.build(tmp_path / "once", log)
        half = len(log.starts) // 2
        driver = self.driver(tmp_path / "twice", log)
        driver.open()
        driver.dispatch_range(0, half)
        driver.flush()
        driver.dispatch_range(half, half + 3)  # not flushed, as after a failure

        driver.close()
        driver.open()

        with driver:
            driver.catch_up()
            found = self.outcome(driver)
        self.assert_same(found, expected, "the same object was opened once more")

    def test_a_plugin_that_lost_its_last_flush_is_cut_and_goes_on(self, tmp_path: Path) -> None:
        """After a failed flush the plugin's log is cut to its progress, then dispatched further."""
        log = self.log()
        expected = self.build(tmp_path / "sound", log)
        for count in spread(len(log.starts) - 1, 4)[1:]:
            driver = self.driver(tmp_path / str(count), log)
            driver.open()
            driver.dispatch_range(0, count)
            driver.flush()
            driver.catch_up()
            driver.close()
            driver.log = log.first(count)
            driver.open()
            driver.catch_up()
            state = copy.deepcopy(self.state(driver.plugin))
            driver.close()
            shorter = self.build(tmp_path / f"{count} fresh", log.first(count))
            assert state == shorter.state, f"cut to {count} messages: another state"
            driver.log = log
            with driver:
                driver.catch_up()
                found = self.outcome(driver)
            self.assert_same(found, expected, f"cut to {count} messages, and went on")

    @shows("caught-up")
    def test_a_store_suspends_and_resumes_it(self, tmp_path: Path) -> None:
        """A plugin suspended while messages are stored misses none of them once resumed."""
        log = self.log()
        expected = self.build(tmp_path / "by hand", log)
        root, count = tmp_path / "store", len(log.starts)
        third = count // 3

        clock = ManualClock()
        with self.open_store(root, log, clock=clock) as store:
            self.put_all(store, clock, log, 0, third)
            assert store.wait_dispatched(timeout=60), "the plugin did not keep up"
            store.suspend_plugin(self.name)
            self.put_all(store, clock, log, third, 2 * third)
            store.resume_plugin(self.name)
            self.put_all(store, clock, log, 2 * third, count)
            assert store.wait_dispatched(timeout=60), "the plugin did not keep up"
            self.assert_running(store)
            state = copy.deepcopy(self.state(store.plugin_objects[self.name]))

        assert state == expected.state, "suspended and resumed: another state"
        if self.same_files:
            assert self.files(root) == expected.files, "suspended and resumed: other bytes on disk"
        self.assert_nothing_open(root, "the store was closed")

    def _count_calls(self, root: Path) -> int:
        disk, log = FaultyDisk(operations=_FAILING), self.log()
        with self.driver(root, log, disk=disk) as driver:
            before = len(disk.calls)
            driver.catch_up(range(0, len(log.starts), 5))
            return len(disk.calls) - before

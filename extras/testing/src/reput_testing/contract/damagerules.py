"""Contract tests about damaged files and failing disks."""

from __future__ import annotations

import copy
import errno
import os
from pathlib import Path

import pytest

from reput.errors import CorruptFileError, ReputError
from reput_testing.casebudget import part
from reput_testing.contract.basecontract import ContractRules, Outcome, spread
from reput_testing.contract.driver import Driver
from reput_testing.contract.promises import shows
from reput_testing.disks import filedamage
from reput_testing.disks.failingdisk import CHANGING, FaultyDisk
from reput_testing.disks.filedamage import FileDamage


class DamageRules(ContractRules):
    """Rules for files that differ from what the plugin wrote, or that cannot be written."""

    @shows("noticed")
    def test_torn_files_are_noticed(self, tmp_path: Path) -> None:
        """A file cut short is repaired from the log, or reported."""
        self.check_damages("torn", tmp_path)

    @shows("noticed")
    def test_emptied_files_are_noticed(self, tmp_path: Path) -> None:
        """A file that has lost all its bytes but not its name is repaired or reported."""
        self.check_damages("emptied", tmp_path)

    @shows("noticed")
    def test_zeroed_files_are_noticed(self, tmp_path: Path) -> None:
        """A file whose end reads as zeros, as after a power cut, is repaired or reported."""
        self.check_damages("zeroed", tmp_path)

    @shows("noticed")
    def test_garbled_files_are_noticed(self, tmp_path: Path) -> None:
        """A file in which one byte differs from what was written is repaired or reported."""
        self.check_damages("garbled", tmp_path)

    def test_grown_files_are_noticed(self, tmp_path: Path) -> None:
        """A file with more bytes than were written is repaired, reported, or read as before."""
        self.check_damages("grown", tmp_path)

    def test_removed_files_are_noticed(self, tmp_path: Path) -> None:
        """The loss of one of several files is repaired or reported."""
        self.check_damages("removed", tmp_path)

    def test_a_full_disk_is_an_error_and_no_damage(self, tmp_path: Path) -> None:
        """Whichever write finds the disk full, the hook raises, and opening again repairs."""
        self.check_faults(tmp_path, errno.ENOSPC, lasting=True)

    def test_a_failed_write_or_flush_is_an_error_and_no_damage(self, tmp_path: Path) -> None:
        """Whichever operation fails once, the hook raises, and opening again repairs."""
        self.check_faults(tmp_path, errno.EIO, lasting=False)

    # ------------------------------------------------------------------ damaged files

    def check_damages(self, kind: str, directory: Path) -> None:
        """Apply damages of one kind to each file of the plugin, and check each."""
        root, log = directory / "store", self.log()
        expected = self.build(root, log)
        self.skip_without_files(expected.files)
        filedamage.place(expected.files, root)
        damages = [
            (name, found)
            for name in expected.files
            for found in filedamage.damages_of(root / name)
            if found.kind == kind
        ]
        if not damages:
            pytest.skip("none of the plugin's files can have this damage")
        chosen = spread(len(damages) - 1, self.max_damages)

        for number in part(chosen):
            name, found = damages[number]
            filedamage.place(expected.files, root)
            found.apply(root / name)
            self.check_damaged(root, expected, name, found)

    def check_damaged(self, root: Path, expected: Outcome, name: str, found: FileDamage) -> None:
        """Check for the right state or a clear error, first as a reader, then as a writer."""
        log, what = self.log(), f"{name} {found.kind} at byte {found.position}"
        before = filedamage.traces(root)
        reader = self.driver(root, log, progress=expected.progress, clean=False, writable=False)
        try:
            reader.open()
            read = copy.deepcopy(self.state(reader.plugin))
        except ReputError:
            read = expected.state
        finally:
            reader.close()
        assert filedamage.traces(root) == before, f"{what}: a read-only opening wrote something"

        try:
            mended = self.reopen(root, log, expected.progress, clean=False)
        except CorruptFileError:
            mended = expected
        self.assert_nothing_open(root, what)

        if found.kind not in self.undetectable:
            self.assert_same(mended, expected, what)
        if found.kind not in {*self.undetectable, *self.undetectable_to_readers}:
            assert read == expected.state, f"{what}: opened for reading only, another state"

    # ------------------------------------------------------------------ failing disks

    def check_faults(self, directory: Path, error: int, *, lasting: bool) -> None:
        """Make operations of the disk fail, one run for each, and check what is left."""
        expected = self.build(directory / "whole", self.log())
        counting = FaultyDisk(operations=_MUST_BE_TOLD)
        self.run_to_the_end(self.driver(directory / "counting", self.log(), disk=counting))
        if not counting.calls:
            pytest.skip("the plugin writes nothing through its disk")

        for number in part(spread(len(counting.calls) - 1, self.max_damages // 2)):
            operation, path = counting.calls[number]
            what = f"{operation} of {os.path.basename(path)} (call {number + 1}) failed"
            disk = FaultyDisk(number + 1, error=error, lasting=lasting, operations=_MUST_BE_TOLD)
            root = directory / str(number)
            driver = self.driver(root, self.log(), disk=disk)
            try:
                self.run_to_the_end(driver)
            except (OSError, ReputError):
                pass
            else:
                pytest.fail(f"{what}, and no hook said so")
            try:
                driver.close()
            except (OSError, ReputError):
                pass  # the same disk
            self.assert_nothing_open(root, what)

            mended = self.reopen(root, self.log(), driver.progress, clean=False)
            self.assert_same(mended, expected, what)

    def run_to_the_end(self, driver: Driver) -> None:
        """Open, dispatch with a flush half-way, flush, close."""
        count = len(driver.log.starts)
        driver.open()
        driver.catch_up({count // 2}, flush_before={count // 2})
        driver.flush()
        driver.close()


# A file that cannot be removed is one file too many, and no failure of a hook.
_MUST_BE_TOLD = CHANGING - {"remove"}

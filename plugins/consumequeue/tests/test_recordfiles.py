"""`RecordFiles`: a run of files of records, in which no crash leaves a gap."""

from __future__ import annotations

import os
import shutil

import pytest

from reput.files import FilePool
from reput_consumequeue.recordfiles import FileSet, RecordFiles
from reput_testing import QuickDisk, SimulatedDisk


class RecordingDisk(QuickDisk):
    """Notes what changes names, and which directories are flushed."""

    def __init__(self, root):
        self.root, self.done = root, []

    def _note(self, what, path):
        self.done.append((what, os.path.relpath(path, self.root)))

    def rename(self, source, target):
        super().rename(source, target)
        self._note("rename", target)

    def remove(self, path):
        super().remove(path)
        self._note("remove", path)

    def flush_directory(self, path):
        super().flush_directory(path)
        self._note("flush", path)


@pytest.fixture
def disk(tmp_path):
    return RecordingDisk(tmp_path)


def run_in(root, disk, *, writable=True, clean=True):
    scratch, pool = str(root / "aside"), FilePool(disk, write=writable)
    access = FileSet(disk, pool, 3, writable=writable, clean=clean, scratch=scratch)
    return RecordFiles(str(root / "runs" / "7"), access, record_size=4, per_file=3, depth=1), access


def test_files_are_named_by_their_first_byte_and_have_their_whole_size(tmp_path, disk):
    run, _ = run_in(tmp_path, disk)

    run.make(3)
    run.make(6)
    run.write_bytes(6, 4, b"abcd")

    names = sorted(os.listdir(run.directory))
    assert names == ["00000000000000000012", "00000000000000000024"]
    assert run.read_bytes(3, 0, 99) == bytes(12)
    assert run.read_bytes(6, 4, 4) == b"abcd"
    assert [run.base_of(record) for record in (2, 3, 5, 6, 8, 9)] == [None, 3, 3, 6, 6, None]


def test_files_go_one_after_the_other_on_disk_too(tmp_path, disk):
    run, _ = run_in(tmp_path, disk)
    for base in (0, 3, 6):
        run.make(base)
    disk.done.clear()

    assert run.trim(6) == 2

    assert run.bases == (6,)
    first, second = "runs/7/00000000000000000000", "runs/7/00000000000000000012"
    assert disk.done == [("remove", first), ("flush", "runs/7"), ("remove", second)]


def test_the_last_file_is_never_trimmed_and_all_can_be_removed(tmp_path, disk):
    run, access = run_in(tmp_path, disk)
    run.make(0)

    assert run.trim(99) == 0
    run.clear()
    access.unflushed.flush()

    assert run.bases == ()
    assert os.listdir(run.directory) == []


@pytest.mark.parametrize(("base", "waits"), [(9, True), (0, False)])
def test_a_run_that_begins_elsewhere_has_no_file_of_the_old_one_after_a_power_cut(
    tmp_path, disk, base, waits
):
    run, access = run_in(tmp_path, disk)
    run.make(0)
    run.make(3)
    access.unflushed.flush()
    disk.done.clear()

    run.clear()
    run.make(base)  # of one name there is one file in any case

    first, second = "runs/7/00000000000000000012", "runs/7/00000000000000000000"
    gone = [("remove", first), ("flush", "runs/7"), ("remove", second)]
    assert disk.done[: len(gone)] == gone
    assert (disk.done[len(gone) :][:1] == [("flush", "runs/7")]) == waits
    assert ("rename", f"runs/7/{4 * base:020d}") in disk.done[len(gone) :]


@pytest.mark.parametrize("clean", [True, False])
def test_removals_wait_for_those_of_a_killed_process(tmp_path, disk, clean):
    run, _ = run_in(tmp_path, disk)
    for base in (0, 3, 6):
        run.make(base)
    run.remove(6)  # and killed before it was on disk
    after, _ = run_in(tmp_path, disk, clean=clean)
    after.bases = (0, 3)
    disk.done.clear()

    after.remove(3)

    waits = [] if clean else [("flush", "runs/7")]
    assert disk.done == [*waits, ("remove", "runs/7/00000000000000000012")]


@pytest.mark.parametrize("base", [None, 12])
def test_two_kills_and_a_power_cut_leave_one_run_of_files(tmp_path, base):
    disk = SimulatedDisk(tmp_path)
    run, access = run_in(tmp_path, disk)
    for each in (0, 3, 6):
        run.make(each)
    access.unflushed.flush()
    left = (0, 3) if base is None else ()
    for each in [each for each in (6, 3, 0) if each not in left]:
        run.remove(each)  # and killed before the last removal was on disk
    after, _ = run_in(tmp_path, disk, clean=False)
    after.bases = left

    if base is None:
        after.remove(3)  # and killed again
    else:
        after.make(base)

    for state in disk.crash_states():
        names = sorted(int(name[-20:]) // 12 for name in state.image() if "runs/7/0" in name)
        assert names in ([], [0], [0, 1], [4]), str(state)


@pytest.mark.parametrize(("name", "waits"), [("7", True), ("8", False)])
def test_a_first_file_waits_for_removals_of_a_killed_process(tmp_path, disk, name, waits):
    run, access = run_in(tmp_path, disk)
    run.make(0)
    run.remove(0)
    _, access = run_in(tmp_path, disk, clean=False)
    path = str(tmp_path / "runs" / name)
    after = RecordFiles(path, access, record_size=4, per_file=3, depth=1)
    disk.done.clear()

    after.make(3)

    assert (("flush", f"runs/{name}") in disk.done) == waits


def test_a_cleared_tail_is_zero_and_comes_to_disk(tmp_path, disk):
    run, access = run_in(tmp_path, disk)
    run.make(0)
    run.write_bytes(0, 0, b"abcdefghijkl")
    access.unflushed.flush()

    run.clear_tail(1)
    run.clear_tail(3)  # nothing holds that

    assert run.read_bytes(0, 0, 12) == b"abcd" + bytes(8)


def test_a_reader_sees_the_file_that_has_the_name_now(tmp_path, disk):
    run, _ = run_in(tmp_path, disk)
    run.make(0)
    reader, _ = run_in(tmp_path, disk, writable=False)
    before = reader.read_bytes(0, 0, 4)

    run.clear()
    run.make(0)
    run.write_bytes(0, 0, b"abcd")

    assert (before, reader.read_bytes(0, 0, 4)) == (bytes(4), b"abcd")
    shutil.rmtree(run.directory)
    assert reader.read_bytes(0, 0, 4) == b""


def test_clearing_writes_only_what_is_not_zero(tmp_path, disk):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(8 << 20)
        file.seek(5 << 20)
        file.write(b"x")
    descriptor = disk.open(str(path), write=True)

    cleared = disk.clear(descriptor, 1000, 8 << 20)
    again = disk.clear(descriptor, 0, 8 << 20)

    disk.close(descriptor)
    assert 0 < cleared <= 1 << 20
    assert again == 0
    assert path.read_bytes().count(0) == 8 << 20


def test_a_file_that_a_reader_opens_while_it_is_removed_stays_open_no_longer(tmp_path):
    class ReadWhileRemoved(QuickDisk):
        def remove(self, path):
            assert run.read_bytes(0, 0, 4) == b"abcd"  # the reader found the file before
            super().remove(path)

    disk = ReadWhileRemoved()
    run, access = run_in(tmp_path, disk)
    run.make(0)
    run.write_bytes(0, 0, b"abcd")

    run.remove(0)

    assert run.read_bytes(0, 0, 4) == b""
    assert not access.pool._files

"""`DirtyFiles`: which files and names a flush brings to disk, and what a failed one leaves."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from reput.files import DirtyFiles, Disk, FlushFailedError, dirtyfiles, is_disk_full
from reput_testing import FaultyDisk


class RecordingDisk(Disk):
    """Notes which directories are flushed, among what else `done` is told."""

    flushes_at_once = 1

    def __init__(self):
        self.done = []

    def flush_directory(self, path):
        os.stat(path)
        self.done.append(path)


@pytest.fixture
def disk():
    return RecordingDisk()


@pytest.fixture
def notes(disk):
    return DirtyFiles(disk, disk.done.append)


def failing(error, *, times=1):
    """A function that raises ``error`` the first ``times`` times, and what it was given after."""
    left, done = [error] * times, []

    def flush(file):
        if left:
            raise left.pop()
        done.append(file)

    return flush, done


def test_files_come_to_disk_once_and_before_the_names(notes, disk, tmp_path):
    notes.named(str(tmp_path))
    notes.written("b")
    notes.written("a")
    notes.written("b")

    notes.flush(then=lambda: disk.done.append("then"))
    notes.flush()

    assert disk.done == ["b", "a", str(tmp_path), "then"]


def test_files_and_directories_that_are_gone_are_passed_over(disk, tmp_path):
    def flush(file):
        disk.done.append(file)
        if file == "gone":
            raise FileNotFoundError(file)

    notes = DirtyFiles(disk, flush)
    notes.written("gone")
    notes.written("there")
    notes.named(str(tmp_path / "gone"), str(tmp_path))

    notes.flush()
    notes.flush()

    assert disk.done == ["gone", "there", str(tmp_path)]
    assert not notes.has_failed


def test_what_is_forgotten_is_not_flushed(notes, disk):
    notes.written("removed")
    notes.forget("removed")

    notes.flush()

    assert disk.done == []


@pytest.mark.parametrize("where", ["file", "directory", "then"])
def test_a_flush_that_failed_fails_for_ever(disk, tmp_path, where):
    error = OSError(errno.EIO, "bad sector")
    flush, done = failing(error, times=where == "file")
    notes = DirtyFiles(disk, flush)
    notes.written("a")

    def fail(*args):
        raise error

    if where == "directory":
        disk.flush_directory = fail
    notes.named(str(tmp_path))

    with pytest.raises(OSError, match="bad sector"):
        notes.flush(then=fail if where == "then" else list)
    done.clear()

    for again in (notes.flush, notes.require_no_failure):
        with pytest.raises(OSError, match=r"a flush failed before.*bad sector") as raised:
            again()
        assert raised.value.errno == errno.EIO
    assert notes.has_failed
    assert done == []


@pytest.mark.parametrize("where", ["file", "then"])
def test_a_flush_that_found_the_disk_full_is_made_again(disk, tmp_path, where):
    error = OSError(errno.ENOSPC, "no space")
    flush, done = failing(error, times=2 * (where == "file"))
    then, made = failing(error, times=2 * (where == "then"))
    notes = DirtyFiles(disk, flush)
    notes.written("a")
    notes.written("b")
    notes.named(str(tmp_path))

    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            notes.flush(then=lambda: then("then"))
        assert not notes.has_failed
    notes.flush(then=lambda: then("then"))

    assert sorted(done) == ["a", "b"]
    assert disk.done == [str(tmp_path)]
    assert made == ["then"]


@pytest.mark.parametrize("order", [["lost", "full"], ["full", "lost"]])
def test_a_file_that_was_lost_is_not_forgotten_as_the_disk_was_full(disk, order, monkeypatch):
    errors = {
        "lost": FlushFailedError(errno.ENOSPC, "fsync said so"),
        "full": OSError(errno.ENOSPC, "no space"),
    }

    def flush(file):
        raise errors[file]

    def side_by_side(work, items, at_once):  # all are under way when the first one fails
        found = []
        for item in items:
            try:
                work(iter([item]))
            except OSError as error:
                found.append(error)
        raise found[0]

    monkeypatch.setattr(dirtyfiles, "run_parallel", side_by_side)
    notes = DirtyFiles(disk, flush)
    for file in order:
        notes.written(file)

    with pytest.raises(FlushFailedError):
        notes.flush()
    with pytest.raises(FlushFailedError, match="fsync said so"):
        notes.flush()
    assert notes.has_failed


@pytest.mark.parametrize("operation", ["flush", "flush_directory"])
def test_a_flush_that_fails_is_no_full_disk(tmp_path, operation):
    reader, writer = os.pipe()  # cannot be flushed
    try:
        with pytest.raises(FlushFailedError) as raised:
            Disk().flush(writer)
    finally:
        os.close(reader)
        os.close(writer)
    assert raised.value.errno == errno.EINVAL
    disk = FaultyDisk(1, operations={operation})
    descriptor = disk.open(str(tmp_path / "file"), create=True)
    try:
        with pytest.raises(OSError, match="No space") as raised:
            getattr(disk, operation)(descriptor if operation == "flush" else str(tmp_path))
    finally:
        disk.close(descriptor)

    assert isinstance(raised.value, FlushFailedError)
    assert not is_disk_full(raised.value)


@pytest.mark.parametrize("operation", ["create", "write", "flush", "rename", "flush_directory"])
def test_a_small_file_can_be_replaced_again_whatever_has_failed(tmp_path, operation):
    path = str(tmp_path / "file")
    Disk().replace(path, b"old")
    disk = FaultyDisk(1, operations={operation})

    with pytest.raises(OSError, match="No space") as raised:
        disk.replace(path, b"new")
    assert is_disk_full(raised.value) is not operation.startswith("flush")
    assert disk.read_file(path) in (b"old", b"new")
    disk.replace(path, b"newer")

    assert disk.read_file(path) == b"newer"


def test_a_flush_that_was_cut_short_is_gone_on_with(disk, tmp_path):
    flush, done = failing(KeyboardInterrupt())
    notes = DirtyFiles(disk, flush)
    for file in "abc":
        notes.written(file)
    notes.named(str(tmp_path))

    with pytest.raises(KeyboardInterrupt):
        notes.flush()
    notes.flush()

    assert sorted(done) == ["a", "b", "c"]
    assert disk.done == [str(tmp_path)]


def test_what_is_written_while_its_file_is_flushed_is_for_the_next_flush(disk):
    def flush(file):
        disk.done.append(file)
        if len(disk.done) == 1:
            notes.written(file)

    notes = DirtyFiles(disk, flush)
    notes.written("a")

    notes.flush()
    notes.flush()
    notes.flush()

    assert disk.done == ["a", "a"]


def test_a_flush_does_not_return_while_another_one_has_its_files_under_way(disk):
    is_inside, may_end = threading.Event(), threading.Event()

    def flush(file):
        is_inside.set()
        assert may_end.wait(60)
        raise OSError(errno.EIO, "bad sector")

    notes = DirtyFiles(disk, flush)
    notes.written("a")
    outcomes = []

    def run():
        try:
            notes.flush()
        except OSError:
            outcomes.append("failed")
        else:
            outcomes.append("on disk")

    threads = [threading.Thread(target=run) for _ in range(2)]
    threads[0].start()
    assert is_inside.wait(60)
    threads[1].start()
    threads[1].join(0.1)  # one that did not wait would be back by then
    may_end.set()
    for thread in threads:
        thread.join()

    assert outcomes == ["failed", "failed"]


def test_a_flush_inside_of_another_one_flushes_what_that_one_has_under_way(disk):
    def flush(file):
        disk.done.append(file)
        if len(disk.done) == 1:  # as a signal handler does that closes the store
            notes.flush()

    notes = DirtyFiles(disk, flush)
    notes.written("a")
    notes.written("b")

    notes.flush()

    assert disk.done == ["a", "a", "b", "b"]

"""What a flush brings to disk, and what it vouches for, while keys go on coming."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reput.files import Disk, FilePool
from reput_index.batchkeys import HashedKeys
from reput_index.files.header import Geometry, Header
from reput_index.files.indexfiles import IndexFiles
from reput_index.layout import HEADER_SIZE
from reput_index.query.hashsearch import HashSearch

T = 1_700_000_000_000


class BusyDisk(Disk):
    """Calls back in the middle of an operation, as another thread might come in between."""

    def __init__(self):
        self.at_write = None
        self.at_flush = None

    def write(self, descriptor, data, position):
        super().write(descriptor, data, position)
        call, self.at_write = self.at_write, None
        if call is not None:
            call()

    def flush(self, descriptor):
        super().flush(descriptor)
        call, self.at_flush = self.at_flush, None
        if call is not None:
            call()


def index_in(directory, disk, slot_count, item_count, *, writable=True):
    return IndexFiles(
        str(directory / "index"),
        str(directory / "scratch"),
        disk,
        FilePool(disk, 4 if writable else 0, write=writable),
        Geometry(slot_count, item_count),
        writable,
    )


def keys(first, count):
    """One key each of messages ``first`` to ``first + count``, a second and 100 bytes apart."""
    numbers = np.arange(first, first + count)
    return HashedKeys(numbers.astype(np.int32) * 7_919, numbers * 100, T + numbers * 1_000)


@pytest.fixture
def disk():
    return BusyDisk()


@pytest.mark.parametrize("count", [1, 2])
def test_removals_and_a_first_file_wait_for_removals_of_a_killed_process(tmp_path, count):
    """Else a power cut could leave a gap, or files of both runs."""
    disk = NamesDisk()
    index = index_in(tmp_path, disk, 10, 21)
    for _ in range(count):
        index.make(T)
        index.append(keys(0, 20))
    index.remove(index.files[-1])  # and killed
    after = index_in(tmp_path, disk, 10, 21)
    after.load()
    after.note_killed()
    disk.done.clear()

    if after.files:
        after.remove(after.files[0])
    else:
        after.make(T + 9_000)

    assert disk.done[0] == "flush"
    index.pool.close()
    after.pool.close()


class NamesDisk(BusyDisk):
    """Notes changes of names, and flushes of directories."""

    def __init__(self):
        super().__init__()
        self.done = []

    def rename(self, source, target):
        super().rename(source, target)
        self.done.append("rename")

    def remove(self, path):
        super().remove(path)
        self.done.append("remove")

    def flush_directory(self, path):
        super().flush_directory(path)
        self.done.append("flush")


def test_a_file_that_fills_up_during_a_flush_is_vouched_for_by_the_next_one(tmp_path, disk):
    """Its last items came behind the flush: a power cut may take them."""
    index = index_in(tmp_path, disk, 10, 21)
    index.make(T)
    index.append(keys(0, 15))
    disk.at_flush = lambda: index.append(keys(15, 5))

    index.flush()

    assert index.files[0].is_full
    assert index.flushed_timestamp == 0
    index.flush()
    assert index.flushed_timestamp == T + 19_000
    index.pool.close()


def test_what_a_reader_sees_in_the_middle_of_a_flush_is_all_that_the_header_counts(tmp_path, disk):
    """Slots of many pages are written in pieces, and keys come in between: no lock is held."""
    index = index_in(tmp_path, disk, 700_000, 5_000)
    index.make(T)
    index.append(keys(0, 2_000))
    disk.at_write = lambda: index.append(keys(2_000, 500))

    index.flush()

    reader = index_in(tmp_path, Disk(), 700_000, 5_000, writable=False)
    reader.load()
    (file,) = reader.files
    assert file.read_header().next_item == 2_001
    for number in range(2_500):
        found = [item.number for item in HashSearch.at(reader, file, number * 7_919).chain()]
        assert found == ([number + 1] if number < 2_000 else [])
    index.flush()
    assert Path(file.path).read_bytes() == written_at_once(tmp_path / "other", 2_500)
    index.pool.close()


def written_at_once(directory, count):
    index = index_in(directory, Disk(), 700_000, 5_000)
    index.make(T)
    index.append(keys(0, count))
    index.flush()
    index.pool.close()
    return Path(index.files[0].path).read_bytes()


def test_slots_that_could_not_be_written_are_written_by_the_next_attempt(tmp_path, disk):
    index = index_in(tmp_path, disk, 700_000, 5_000)
    index.make(T)
    index.append(keys(0, 2_500))

    def fail():
        raise OSError(28, "no space")

    disk.at_write = fail
    with pytest.raises(OSError, match="no space"):
        index._write_back(index.files[0])
    index._write_back(index.files[0])

    found = Path(index.files[0].path).read_bytes()
    assert found == written_at_once(tmp_path / "other", 2_500)
    assert Header.decode(found[:HEADER_SIZE]).next_item == 2_501
    index.pool.close()


class WatchedDisk(Disk):
    """Calls back between two operations of a reader, as a writer in another process comes in."""

    def __init__(self):
        self.calls = {}
        self.count = 0

    def open(self, *args, **options):
        self.count += 1
        self.calls.pop(self.count, lambda: None)()
        return super().open(*args, **options)


@pytest.mark.parametrize("opening", [1, 2, 3])
@pytest.mark.parametrize("flushed", [0, 5])
@pytest.mark.parametrize("appended", [0, 3])
def test_a_reader_sees_the_sizes_of_a_file_while_its_items_come(
    tmp_path, opening, flushed, appended
):
    """The reader is not told how many slots and items a file has; a file without items hides it."""
    index = index_in(tmp_path, Disk(), 7, 41)
    index.make(T)
    index.append(keys(1, flushed))
    index.flush()
    index.append(keys(1 + flushed, appended))
    watched = WatchedDisk()
    # Its own sizes are those of RocketMQ.
    reader = index_in(tmp_path, watched, 5_000_000, 20_000_000, writable=False)

    def go_on():
        index.append(keys(1 + flushed + appended, 5))
        index.flush()
        index.append(keys(6 + flushed + appended, 5))

    watched.calls[opening] = go_on

    reader.load()

    seen = reader.files[0]
    assert seen.item_count in {flushed, flushed + appended + 5}
    if seen.item_count:
        assert seen.geometry == Geometry(7, 41)
    reader.pool.close()
    index.pool.close()


@pytest.mark.parametrize(("later", "flushed"), [(0, []), (60_000, ["index"])])
def test_a_removal_is_on_disk_before_a_file_of_another_name_is_made(
    tmp_path, disk, monkeypatch, later, flushed
):
    """A power cut may bring back the last file, unless the new one has its name."""
    index, found = index_in(tmp_path, disk, 10, 11), []
    index.make(T)
    index.append(keys(0, 15))
    index.append(keys(10, 5))
    monkeypatch.setattr(disk, "flush_directory", lambda path: found.append(Path(path).name))

    for file in reversed(index.files):
        index.remove(file)

    assert found == ["index"]  # between both
    found.clear()
    make = index.make(T + later)
    assert [name for name in found if name == "index"] == flushed
    assert index.files == (make,)
    index.pool.close()

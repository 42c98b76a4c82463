"""`create_file`: a file has its name only when it is whole."""

from __future__ import annotations

import errno

import pytest

from reput.files import Disk, create_file, create_temporary_file
from reput.files.system.flushing import heart


class RecordingDisk(Disk):
    """Notes what is done to files."""

    def __init__(self):
        self.done = []

    def truncate(self, descriptor, size):
        self.done.append("truncate")
        super().truncate(descriptor, size)

    def allocate(self, descriptor, size):
        self.done.append("allocate")
        super().allocate(descriptor, size)

    def flush(self, descriptor):
        self.done.append("flush")
        super().flush(descriptor)

    def rename(self, source, target):
        self.done.append("rename")
        super().rename(source, target)


class FullDisk(Disk):
    """Gives no file a size."""

    def truncate(self, descriptor, size):
        raise OSError(errno.ENOSPC, "full")


def test_a_file_gets_its_size_before_its_name(tmp_path):
    disk = RecordingDisk()

    create_file(disk, str(tmp_path / "made"), 5000, aside=str(tmp_path / "aside" / "next"))

    assert disk.done == ["truncate", "rename"]
    assert (tmp_path / "made").read_bytes() == bytes(5000)
    assert list((tmp_path / "aside").iterdir()) == []


def test_a_file_is_made_beside_its_name_unless_told_otherwise(tmp_path):
    create_file(Disk(), str(tmp_path / "made"), 10)

    assert [each.name for each in tmp_path.iterdir()] == ["made"]


def test_what_a_crash_left_aside_keeps_its_bytes_under_its_other_name(tmp_path):
    # A power cut may undo half of a rename: the file has both names then.
    (tmp_path / "older").write_bytes(b"units")
    (tmp_path / "next").hardlink_to(tmp_path / "older")

    create_file(Disk(), str(tmp_path / "made"), 10, aside=str(tmp_path / "next"))

    assert (tmp_path / "older").read_bytes() == b"units"
    assert (tmp_path / "made").read_bytes() == bytes(10)


def test_one_that_is_reserved_and_flushed_is_so_before_it_is_handed_over(tmp_path):
    disk = RecordingDisk()

    create_temporary_file(disk, str(tmp_path / "next"), 5000, reserve=5000, flush=True)

    assert disk.done == ["allocate", "flush"]


def test_nothing_is_left_where_there_is_no_room(tmp_path):
    with pytest.raises(OSError, match="full"):
        create_file(FullDisk(), str(tmp_path / "made"), 10)

    assert list(tmp_path.iterdir()) == []


def test_making_many_files_advances(tmp_path, monkeypatch):
    """So a dispatch that makes a file for each of ten thousand queues is not taken for hanging."""
    beats = []
    monkeypatch.setattr(heart, "beat", lambda: beats.append(1))

    for number in range(3):
        create_file(Disk(), str(tmp_path / str(number)), 40)

    assert len(beats) >= 3

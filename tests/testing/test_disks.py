"""Disks of the kit fail when they are told to, and only then."""

from __future__ import annotations

import errno

import pytest

from reput_testing import FaultyDisk, QuickDisk, ReadOnlyDisk
from reput_testing.disks.failingdisk import CHANGING


def use_everything(disk, directory):
    """Every changing operation once; allocate and map make it nine with the descriptor's own."""
    disk.make_directory(f"{directory}/d")
    descriptor = disk.open(f"{directory}/d/file", create=True)
    try:
        disk.allocate(descriptor, 100)
        disk.truncate(descriptor, 50)
        disk.write(descriptor, b"0123456789", 5)
        disk.flush(descriptor)
        disk.map(descriptor, 50).close()
    finally:
        disk.close(descriptor)
    disk.rename(f"{directory}/d/file", f"{directory}/d/other")
    disk.flush_directory(f"{directory}/d")
    disk.remove(f"{directory}/d/other")


def test_a_disk_without_a_fault_counts_every_changing_operation(tmp_path):
    disk = FaultyDisk()

    use_everything(disk, tmp_path)

    assert {operation for operation, _ in disk.calls} == CHANGING
    assert not disk.failed


@pytest.mark.parametrize("number", range(1, 11))
def test_the_chosen_operation_fails_and_the_next_does_not(tmp_path, number):
    disk = FaultyDisk(number, error=errno.EIO)

    with pytest.raises(OSError) as raised:
        use_everything(disk, tmp_path)

    assert raised.value.errno == errno.EIO
    assert disk.failed
    assert len(disk.calls) == number
    disk.make_directory(f"{tmp_path}/after")


def test_a_failed_write_leaves_half_of_its_bytes(tmp_path):
    disk = FaultyDisk(1, operations={"write"})
    descriptor = disk.open(f"{tmp_path}/file", create=True)

    with pytest.raises(OSError, match="No space left"):
        disk.write(descriptor, b"0123456789", 0)
    disk.close(descriptor)

    assert (tmp_path / "file").read_bytes() == b"01234"


def test_a_lasting_fault_stays_until_the_disk_was_mended(tmp_path):
    disk = FaultyDisk(1, lasting=True)
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            disk.make_directory(f"{tmp_path}/d")

    disk.mend()

    disk.make_directory(f"{tmp_path}/d")
    assert (tmp_path / "d").is_dir()


def test_only_what_is_below_a_path_counts(tmp_path):
    disk = FaultyDisk(1, below="/log/")
    disk.make_directory(f"{tmp_path}/other/d")

    with pytest.raises(OSError, match="No space left"):
        disk.make_directory(f"{tmp_path}/log/d")
    assert disk.calls == [("make_directory", f"{tmp_path}/log/d")]


def test_short_writes_store_everything_in_the_end(tmp_path):
    disk = FaultyDisk(short_writes=True)
    descriptor = disk.open(f"{tmp_path}/file", create=True)

    assert disk.write_some(descriptor, b"0123456789", 0) == 5
    disk.write(descriptor, b"0123456789", 0)
    disk.close(descriptor)

    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_reading_never_fails_and_never_counts(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    disk = FaultyDisk(1)

    assert disk.read_file(f"{tmp_path}/file") == b"text"
    assert disk.exists(f"{tmp_path}/file")
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["file"]
    assert disk.calls == []


def test_replacing_a_file_can_fail_in_each_of_its_steps(tmp_path):
    whole = FaultyDisk()
    whole.replace(f"{tmp_path}/file", b"old")
    steps = [operation for operation, _ in whole.calls]

    for number in range(1, len(steps) + 1):
        with pytest.raises(OSError, match="No space left"):
            FaultyDisk(number).replace(f"{tmp_path}/file", b"new")
        assert (tmp_path / "file").read_bytes() in (b"old", b"new")

    assert steps == ["create", "write", "flush", "rename", "flush_directory"]


def test_a_read_only_disk_reads_and_refuses_the_rest(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    disk = ReadOnlyDisk()

    assert disk.read_file(f"{tmp_path}/file") == b"text"
    with pytest.raises(OSError, match="make_directory on a store that is open for reading only"):
        disk.make_directory(f"{tmp_path}/d")
    with pytest.raises(OSError) as raised:
        disk.open(f"{tmp_path}/file", write=True)
    assert raised.value.errno == errno.EROFS


def test_a_quick_disk_flushes_only_what_is_there(tmp_path):
    disk = QuickDisk()
    descriptor = disk.open(f"{tmp_path}/file", create=True)
    disk.flush(descriptor)
    disk.close(descriptor)

    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.flush(descriptor)
    with pytest.raises(FileNotFoundError):
        disk.flush_directory(f"{tmp_path}/nowhere")

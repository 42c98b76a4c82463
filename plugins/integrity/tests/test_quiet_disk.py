"""A disk that reads all of a store leaves the page cache as it was."""

from __future__ import annotations

import os

import pytest

from reput.files import Disk
from reput_integrity.scrub.cacheneutraldisk import CacheNeutralDisk

SIZE = 600_000


@pytest.fixture
def path(tmp_path):
    name = tmp_path / "file"
    name.write_bytes(os.urandom(SIZE))
    return str(name)


@pytest.mark.parametrize(
    ("size", "position"),
    [(SIZE, 0), (10, 5), (200_000, 131_072), (SIZE, 400_000), (5, SIZE), (5, SIZE + 9), (0, 0)],
)
def test_it_reads_what_any_disk_reads(path, size, position):
    plain, quiet = Disk(), CacheNeutralDisk()
    descriptor = plain.open(path)

    expected = plain.read(descriptor, size, position)
    found = quiet.read(descriptor, size, position)
    filled = bytearray(size)
    count = quiet.read_into(descriptor, memoryview(filled), position)
    os.close(descriptor)

    assert found == expected
    assert bytes(filled[:count]) == expected


def test_it_drops_what_it_brought_into_memory_and_nothing_else(path, monkeypatch):
    dropped = []
    in_memory = {131_072}  # where the pieces begin that others use

    def preadv(descriptor, buffers, position, flags=0):
        if flags and position not in in_memory:
            raise BlockingIOError
        return real(descriptor, buffers, position)

    def posix_fadvise(descriptor, position, size, advice):
        if advice == os.POSIX_FADV_DONTNEED:
            dropped.append((position, size))

    real = os.preadv
    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(os, "posix_fadvise", posix_fadvise)
    disk = CacheNeutralDisk()
    descriptor = disk.open(path)
    disk.read(descriptor, 400_000, 0)
    os.close(descriptor)

    assert dropped == [(0, 131_072), (262_144, 131_072), (393_216, 6_784)]


def test_a_system_without_such_calls_reads_as_usual(path, monkeypatch):
    for name in ("RWF_NOWAIT", "posix_fadvise"):
        monkeypatch.delattr(os, name)
    disk = CacheNeutralDisk()

    assert disk.read_file(path) == Disk().read_file(path)

"""What differs between the files of a store and those that were built again."""

from __future__ import annotations

import os

import pytest

from reput.files import Disk
from reput_tools.offline import compare

GIB = 1 << 30
MIB = 1 << 20


class CountingDisk(Disk):
    """Counts the bytes that are read."""

    def __init__(self):
        super().__init__()
        self.bytes_read = 0

    def read(self, descriptor, count, position):
        data = super().read(descriptor, count, position)
        self.bytes_read += len(data)
        return data


@pytest.fixture
def pair(tmp_path):
    """Return a function that makes a file of a store and the one that was built, mostly holes."""

    def make(own, built, size=GIB):
        for name, parts in (("own", own), ("built", built)):
            (tmp_path / name).mkdir()
            with (tmp_path / name / "file").open("wb") as file:
                for position, data in parts.items():
                    file.seek(position)
                    file.write(data)
                file.truncate(size)
        return str(tmp_path / "own"), str(tmp_path / "built")

    return make


def differences(own, built, disk=None, limit=100):
    found = compare(own, built, ["file"], disk or Disk(), limit=limit)
    return [(each.position, each.size) for each in found]


def test_holes_are_not_read(pair):
    disk = CountingDisk()
    parts = {0: b"head", 700 * MIB: b"tail"}
    assert differences(*pair(parts, parts), disk) == []
    assert 0 < disk.bytes_read <= 32 * MIB


@pytest.mark.parametrize("position", [0, 5 * MIB - 2, 512 * MIB, GIB - 3])
def test_bytes_in_the_hole_of_the_other_file_differ(pair, position):
    assert differences(*pair({position: b"abc"}, {})) == [(position, 3)]


@pytest.mark.parametrize("position", [0, 5 * MIB - 2, 512 * MIB, GIB - 3])
def test_bytes_that_the_store_lacks_differ(pair, position):
    assert differences(*pair({}, {position: b"abc"})) == [(position, 3)]


def test_a_shorter_file_lacks_what_is_not_zero(pair):
    own, built = pair({0: b"head"}, {0: b"head", 600 * MIB: b"more"})
    os.truncate(os.path.join(own, "file"), 4)
    assert differences(own, built) == [(600 * MIB, 4)]

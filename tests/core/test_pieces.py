"""Many short pieces of a file, and many records of the log, are read in one call."""

from __future__ import annotations

import errno
import os
import struct
from itertools import pairwise

import pytest

import reput
from reput.files.system.vectoredread import places_of, read_pieces
from reput_testing import QuickDisk

CONTENT = bytes(range(250)) * 200


@pytest.fixture
def descriptor(tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    found = os.open(tmp_path / "file", os.O_RDONLY)
    yield found
    os.close(found)


def packed(*places):
    return b"".join(struct.pack(">qiq", *place, -1) for place in places)


def read(descriptor, *places, base=0, limit=50_000, count=99, most=1 << 20):
    asked = descriptor, base, limit, packed(*places), 20, 40_000, count, most
    found, number = read_pieces(*asked)
    assert number == len(found)
    for together in (1, 60, 1 << 20):
        chunks, number = read_pieces(*asked, together)
        assert (b"".join(chunks), number) == (b"".join(found), len(found))
        assert all(0 < len(chunk) <= together or chunk in found for chunk in chunks)
        assert all(len(a) + len(b) > together for a, b in pairwise(chunks)) or together == 60
    return found


def test_places_begin_each_stride():
    assert places_of(packed((5, 7), (1 << 40, 9)) + b"rest", 20) == [(5, 7), (1 << 40, 9)]


def test_pieces_near_each_other_and_far_apart(descriptor):
    places = [(3, 4), (7, 100), (300, 20), (45_000, 5), (0, 2)]

    assert read(descriptor, *places) == [CONTENT[at : at + size] for at, size in places]


def test_a_file_counts_from_its_base(descriptor):
    assert read(descriptor, (1_003, 4), base=1_000, limit=2_000) == [CONTENT[3:7]]


@pytest.mark.parametrize("place", [(-1, 5), (10, 0), (10, -5), (49_990, 11), (10, 40_001)])
def test_reading_ends_at_a_place_that_is_none(descriptor, place):
    assert read(descriptor, (0, 5), place, (5, 5)) == [CONTENT[:5]]


def test_reading_ends_at_a_count_and_at_a_size_but_not_before_one_piece(descriptor):
    places = [(0, 50), (50, 50), (100, 50)]

    assert len(read(descriptor, *places, count=2)) == 2
    assert len(read(descriptor, *places, most=100)) == 2
    assert len(read(descriptor, *places, most=99)) == 1
    assert len(read(descriptor, *places, most=1)) == 1


class _SickDisk(QuickDisk):
    """A disk that fails to read a file of the log."""

    is_sick = False

    def read(self, descriptor, size, position):
        if self.is_sick and "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "sick")
        return super().read(descriptor, size, position)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="asks Linux for a file's name")
def test_a_disk_that_reads_in_its_own_way_reads_all_pieces(tmp_path):
    disk = _SickDisk()
    with reput.open(tmp_path, "w", plugins=[], disk=disk) as store:
        store.put(reput.Message("T", b"one"))
        size = store.log.max_physical_offset
        asked = struct.pack(">qi", 0, size), 12, 9, 1 << 20
        (record,) = store.log.read_records(*asked)
        disk.is_sick = True
        with pytest.raises(OSError, match="sick"):
            store.log.read_records(*asked)
        disk.is_sick = False

    assert reput.MessageView(record).body == b"one"


def test_records_of_several_files_up_to_the_end_of_the_log(tmp_path):
    config = {"commitlog": {"file_size": 4096}}
    with reput.open(tmp_path, "w", plugins=[], config=config) as store:
        for number in range(30):
            store.put(reput.Message("T", b"%03d" % number * 100))
        batches = list(store.scan())
        places = [
            (offset, size)
            for batch in batches
            for offset, size in zip(
                batch.physical_offset.tolist(), batch.size.tolist(), strict=True
            )
        ]
        end = store.log.max_physical_offset

        def bodies(places, count=99, most=1 << 20):
            found = store.log.read_records(packed(*places), 20, count, most)
            for together in (700, 1 << 20):
                chunks = store.log.read_records(packed(*places), 20, count, most, together)
                assert b"".join(chunks) == b"".join(found)
            return [int(reput.MessageView(record).body[:3]) for record in found]

        assert bodies(places) == list(range(30))
        assert bodies(places, count=13) == list(range(13))
        assert bodies(places, most=17 * places[0][1]) == list(range(17))
        assert bodies(places[20:] + places[:3]) == [*range(20, 30), 0, 1, 2]
        assert bodies([*places, (end, 91)]) == list(range(30))
        assert bodies([(end - 1, 91)]) == []
        assert bodies([*places[:2], (1 << 50, 91), *places[2:]]) == [0, 1]
        assert bodies([]) == []

"""Files are read by maps where that is safe, and by their descriptors otherwise."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import subprocess
import sys

import pytest

import reput
from reput.files import readmap
from reput.files.filepool import FilePool
from reput.files.mappedfilequeue import MappedFileQueue
from reput.files.preallocation import POPULATE_READ, populate
from reput.files.readmap import ReadMaps
from reput.files.system.disk import Disk
from reput.files.system.vectoredread import read_pieces
from reput_testing import QuickDisk

BLOCK = 1 << 18
SIZE = 2 * BLOCK
CONTENT = bytes(range(256)) * (SIZE // 256)


class CountingDisk(QuickDisk):
    """Counts maps for reading, and has none if told so."""

    map_count = 0
    has_maps = True

    def map_to_read(self, descriptor, size):
        self.map_count += 1
        if not self.has_maps:
            raise OSError("no address space")
        return super().map_to_read(descriptor, size)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    return str(tmp_path / "file")


def maps_of(path, disk):
    """Maps of one file, by whatever name."""

    @contextlib.contextmanager
    def descriptor(name):
        found = os.open(path, os.O_RDONLY)
        try:
            yield found
        finally:
            os.close(found)

    return ReadMaps(disk, descriptor)


@pytest.fixture(autouse=True)
def loads(monkeypatch):
    """List what is loaded, on systems without such a call, too."""
    loaded = []

    def load(address, size, kind):
        loaded.append(size)
        return kind == POPULATE_READ

    monkeypatch.setattr(readmap, "populate", load)
    return loaded


def test_a_map_holds_the_bytes_of_the_file_and_is_made_once(path):
    disk = CountingDisk()
    maps = maps_of(path, disk)

    ranges = [(0, 900), (SIZE - 900, SIZE)]
    found = [maps.loaded("file", 0, SIZE, *each, 8, SIZE) for each in ranges]

    assert [data.tobytes() for data in found] == [CONTENT[:900], CONTENT[-900:]]
    assert disk.map_count == 1


def test_a_block_is_loaded_once_up_to_where_the_file_is_written(path, loads):
    maps = maps_of(path, Disk())

    for end, limit in ((9, 9), (9, 200), (100, 200), (150, 200), (300, SIZE // 2 + 70)):
        assert maps.loaded("file", 0, SIZE, 0, end, 99, limit) is not None
    assert loads == [9, 200, SIZE // 2]
    assert maps.loaded("file", 0, SIZE, 0, SIZE // 2 + 60, 99, SIZE // 2 + 70) is not None
    assert maps.loaded("file", 0, SIZE, 0, SIZE // 2 + 80, 99, SIZE) is not None

    assert loads == [9, 200, SIZE // 2, 70, SIZE // 2]


def test_what_was_loaded_together_is_one_part_until_the_file_is_forgotten(path):
    maps, half, base = maps_of(path, Disk()), SIZE // 2, 7_000
    assert maps.parts == ()
    expected = [(half, half + 70), (0, half + 70), (0, SIZE)]
    asked = [(half, half + 9, half + 70), (9, 99, SIZE), (half + 9, SIZE, SIZE)]
    for (start, end, limit), (low, high) in zip(asked, expected, strict=True):
        assert maps.loaded("file", base, SIZE, start, end, 99, limit) is not None
        ((data, first, size, size_now),) = maps.parts
        assert (data.tobytes(), first) == (CONTENT[low:high], base + low)
        assert size == size_now() == SIZE

    assert maps.loaded("other", 0, SIZE, 0, 9, 99, SIZE) is not None
    assert [first for _, first, *_ in maps.parts] == [0, base]
    assert maps.loaded("file", base, SIZE, 0, 9, 99, SIZE) is not None
    assert [first for _, first, *_ in maps.parts] == [base, 0]
    os.truncate(path, SIZE - 1)
    assert size_now() < size
    maps.forget("file")
    assert [first for _, first, *_ in maps.parts] == [0]
    maps.clear()
    assert maps.parts == ()


def test_readers_at_several_places_of_a_file_find_what_they_have_loaded(tmp_path, monkeypatch):
    with (tmp_path / "sparse").open("wb+") as file:
        file.truncate(16 * BLOCK + 9)
    maps = maps_of(tmp_path / "sparse", Disk())

    def parts_after(*blocks):
        for block in blocks:
            wanted = block * BLOCK, block * BLOCK + 9
            assert maps.loaded("f", 0, 16 * BLOCK + 9, *wanted, 9, 16 * BLOCK + 9) is not None
        return [(first / BLOCK, len(data) / BLOCK) for data, first, *_ in maps.parts]

    assert parts_after(0, 14, 3, 9) == [(9, 1), (3, 1), (14, 1), (0, 1)]
    assert parts_after(11) == [(11, 1), (9, 1), (3, 1), (14, 1)]
    assert parts_after(10) == [(9, 3), (3, 1), (14, 1)]
    assert parts_after(1)[0] == (0, 2)  # the first one was not a part any more
    monkeypatch.setattr(readmap, "_JOINED_MAX", 2)
    assert parts_after(2)[0] == (0, 4)
    assert parts_after(16, 15)[0] == (14, 2 + 9 / BLOCK)
    maps._maps["f"].ready = ()
    assert parts_after(1) == [(0, 4)]
    maps._maps["f"].ready = ()
    assert parts_after(0) == [(0, 3)]
    assert parts_after(0) == [(0, 4)]


@pytest.mark.parametrize(
    ("start", "end", "count"), [(0, 900, 7), (900, 0, 9), (-9, 9, 9), (9, SIZE + 1, 9)]
)
def test_few_pieces_and_places_outside_of_the_file_are_not_read_by_map(path, start, end, count):
    assert maps_of(path, Disk()).loaded("file", 0, SIZE, start, end, count, SIZE) is None


def test_pieces_far_from_each_other_are_not_read_by_map(tmp_path):
    with (tmp_path / "sparse").open("wb+") as file:
        file.truncate(1 << 24)
    maps = maps_of(tmp_path / "sparse", Disk())
    assert maps.loaded("sparse", 0, 1 << 24, 0, 1 << 19, 8, 1 << 24) is not None
    assert maps.loaded("sparse", 0, 1 << 24, 0, (1 << 19) + 1, 8, 1 << 24) is None


def test_a_file_that_was_cut_is_not_read_by_map(path):
    maps = maps_of(path, Disk())
    assert maps.loaded("file", 0, SIZE, 0, 900, 9, SIZE) is not None
    os.truncate(path, SIZE - 1)

    assert maps.loaded("file", 0, SIZE, 0, 900, 9, SIZE) is None


def test_a_block_that_cannot_be_loaded_is_not_read_by_map(path, monkeypatch):
    monkeypatch.setattr(readmap, "populate", lambda *_: False)

    assert maps_of(path, Disk()).loaded("file", 0, SIZE, 0, 900, 9, SIZE) is None


def test_where_no_file_can_be_mapped_none_is_tried_again(path):
    disk = CountingDisk()
    disk.has_maps = False
    maps = maps_of(path, disk)

    assert [maps.loaded("file", 0, SIZE, 0, 900, 9, SIZE) for _ in range(3)] == [None] * 3
    assert disk.map_count == 1


def test_of_a_block_that_grows_only_new_pages_are_loaded(path, loads):
    maps, page = maps_of(path, Disk()), mmap.PAGESIZE

    for limit in (3 * page + 5, 3 * page + 9, 5 * page):
        assert maps.loaded("file", 0, SIZE, 0, limit, 9, limit) is not None

    assert loads == [3 * page + 5, 9, 2 * page]


def test_what_is_short_for_a_moment_is_tried_again(path, monkeypatch):
    disk = CountingDisk()
    maps = maps_of(path, disk)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "map_to_read", raises(OSError(errno.EMFILE, "too many open files")))
        assert maps.loaded("file", 0, SIZE, 0, 900, 9, SIZE) is None

    assert maps.loaded("file", 0, SIZE, 0, 900, 9, SIZE) is not None
    assert disk.map_count == 1


def raises(error):
    def function(*_):
        raise error

    return function


def test_a_file_that_is_forgotten_is_mapped_again_and_few_stay_mapped(path):
    disk = CountingDisk()
    maps = maps_of(path, disk)
    for name in ("a", "a", *"bcdefghi", "a"):
        maps.loaded(name, 0, SIZE, 0, 900, 9, SIZE)
    assert disk.map_count == 10  # "a" is the ninth from the end, and eight are kept

    maps.forget("a")
    maps.loaded("a", 0, SIZE, 0, 900, 9, SIZE)
    maps.clear()

    assert disk.map_count == 11
    assert maps.loaded("a", 0, SIZE, 0, 900, 9, SIZE) is None


def test_a_pool_reads_the_same_pieces_with_and_without_a_map(path):
    places = b"".join(struct.pack(">qi", at, 100) for at in range(0, 2_000, 200))
    wanted = 0, SIZE, places, 12, 1 << 20, 99, 1 << 20
    disk = CountingDisk()
    pool = FilePool(disk)

    found = pool.read_pieces(path, *wanted)

    assert disk.map_count == 0
    data = pool.maps.loaded(path, 0, SIZE, 0, 1_900, 10, SIZE)
    assert read_pieces(data, 0, 1_900, *wanted[2:]) == found
    assert disk.map_count == 1
    assert found == ([CONTENT[at : at + 100] for at in range(0, 2_000, 200)], 10)
    pool.close()


@pytest.mark.parametrize("damaged", [(5, 9_000, 100), (5, 0, 100), (5, 1_000, -100)])
def test_a_damaged_place_is_not_read_where_a_map_is_not_loaded(tmp_path, path, damaged):
    row, at, size = damaged
    units = [[place, 100] for place in range(1_000, 3_000, 200)]
    units[row] = [at, size]
    places = b"".join(struct.pack(">qi", *unit) for unit in units)
    os.rename(path, tmp_path / f"{0:020d}")
    disk = CountingDisk()
    pool = FilePool(disk)
    files = MappedFileQueue(str(tmp_path), SIZE, disk, pool, maps_to_read=True)
    files.load(writable=False)

    pieces, count = files.read_many(SIZE, places, 12, 1 << 20, 99, 1 << 20, 0)

    assert disk.map_count == 1
    assert pieces == [CONTENT[place : place + 100] for place in range(1_000, 2_000, 200)]
    assert count == row
    pool.close()


@pytest.mark.parametrize("is_first_known_here", [False, True])
def test_a_file_that_is_removed_during_a_read_stays_mapped_no_longer(
    path, monkeypatch, is_first_known_here
):
    disk = Disk()
    pool = FilePool(disk)
    if is_first_known_here:
        pool.read(path, 1, 0)
    map_to_read = disk.map_to_read

    def removed_meanwhile(*asked):
        pool.forget(path)
        return map_to_read(*asked)

    monkeypatch.setattr(disk, "map_to_read", removed_meanwhile)
    data = pool.maps.loaded(path, 0, SIZE, 0, 1_900, 10, SIZE)

    assert data.tobytes() == CONTENT[:1_900]
    assert not pool.maps._maps
    pool.close()


def test_a_file_that_is_mapped_beside_the_closing_stays_mapped_no_longer(path, monkeypatch):
    pool = FilePool(Disk())
    made = pool.maps._made

    def closed_meanwhile(*asked):
        pool.close()
        return made(*asked)

    monkeypatch.setattr(pool.maps, "_made", closed_meanwhile)
    data = pool.maps.loaded(path, 0, SIZE, 0, 1_900, 10, SIZE)

    assert data.tobytes() == CONTENT[:1_900]
    assert not pool.maps._maps
    assert not pool._descriptors


@pytest.mark.parametrize("mode", ["r", "w"])
def test_only_the_process_that_writes_the_store_maps_the_log(tmp_path, mode):
    with reput.open(tmp_path / "s", "w", plugins=[]) as store:
        for number in range(20):
            store.put(reput.Message("T", b"%d" % number))
    disk = CountingDisk()
    with reput.open(tmp_path / "s", mode, plugins=[], disk=disk) as store:
        (batch,) = store.scan()
        places = zip(batch.physical_offset.tolist(), batch.size.tolist(), strict=True)
        packed = b"".join(struct.pack(">qi", *place) for place in places)
        records = store.log.read_records(packed, 12, 99, 1 << 20)

    assert [reput.MessageView(each).body for each in records] == [b"%d" % n for n in range(20)]
    assert disk.map_count == (mode == "w")


_CUT_BETWEEN = """
import os, struct, sys
import reput
config = {"commitlog": {"file_size": 65536}}
with reput.open(sys.argv[1], plugins=[], threads=False, config=config) as store:
    for number in range(40):
        store.put(reput.Message("T", b"%d" % number * 300))
    (batch,) = store.scan()
    places = zip(batch.physical_offset.tolist(), batch.size.tolist())
    packed = b"".join(struct.pack(">qi", *place) for place in places)
    print(len(store.log.read_records(packed, 12, 99, 1 << 20)))
    os.truncate(store.log.files.path(0), 4096)
    found = store.log.read_records(packed, 12, 99, 1 << 20)
    print(sum(each[:4] == struct.pack(">i", len(each)) for each in found), flush=True)
    os._exit(0)
"""


def test_a_file_that_is_cut_under_its_writer_gives_less_and_no_signal(tmp_path):
    command = [sys.executable, "-c", _CUT_BETWEEN, str(tmp_path / "s")]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    before, after = map(int, ended.stdout.split())
    assert before == 40
    assert 0 < after < 40


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux 5.14 has this call")
def test_loading_pages_behind_the_end_of_a_file_is_no_signal(path):
    import numpy as np

    with open(path, "rb+") as file:
        data = np.frombuffer(Disk().map_to_read(file.fileno(), SIZE), np.uint8)
        file.truncate(0)

        assert not populate(data.ctypes.data, SIZE, POPULATE_READ)


def test_a_map_that_is_made_while_its_file_is_forgotten_does_not_stay(path):
    pool = FilePool(Disk())
    lock = pool._lock
    found = []

    class Between:
        """Has a reader map the file just before `forget` has the pool's lock."""

        def __enter__(self):
            pool._lock = lock
            found.append(pool.maps.loaded(path, 0, SIZE, 0, 1_900, 10, SIZE))
            return lock.__enter__()

        def __exit__(self, *error):
            return lock.__exit__(*error)

    pool._lock = Between()
    pool.forget(path)

    assert found[0].tobytes() == CONTENT[:1_900]
    assert not pool.maps._maps
    pool.close()

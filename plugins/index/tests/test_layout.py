"""The bytes of index files, against the vectors of the format and an encoder of its own."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from reput.files import Disk, FilePool
from reput.record import java_string_hash
from reput_index.batchkeys import HashedKeys
from reput_index.files.filenames import name_of_time
from reput_index.files.header import Geometry, Header
from reput_index.files.indexfiles import IndexFiles
from reput_index.layout import (
    HEADER_DTYPE,
    HEADER_SIZE,
    ITEM_DTYPE,
    ITEM_SIZE,
    file_size,
    key_hash,
)

T = 1_700_000_000_123
UNIQUE = "7F00000100002A139A1857C5D7A10000"

# Header, slots and items as the format's description gives them for five puts.
FIVE_PUTS = bytes.fromhex(
    "0000018bcfe5687b 0000018bcfe58f8a 00000000000003e8 00000000000007d0 00000004 00000006"
    "00000004 00000000 00000000 00000000 00000005 00000002 00000000 00000000 00000000 00000003"
    "0000000000000000000000000000000000000000"
    "0029e6a8 00000000000003e8 00000000 00000000"
    "0029e6a9 000000000000044c 00000001 00000000"
    "5eb033e9 00000000000004b0 00000003 00000000"
    "00000000 0000000000000514 00000004 00000000"
    "0029e6a8 00000000000007d0 00000009 00000001"
).ljust(480, b"\0")


def keys(*rows):
    """Keys of ``(text with its topic, physical offset, store time)``."""
    hashes = [key_hash(java_string_hash(text)) for text, _, _ in rows]
    return HashedKeys(
        np.array(hashes, np.int32),
        np.array([offset for _, offset, _ in rows], np.int64),
        np.array([time for _, _, time in rows], np.int64),
    )


FIVE = [
    ("TopicTest#k1", 1000, T),
    ("TopicTest#k2", 1100, T + 1500),
    (f"TopicTest#{UNIQUE}", 1200, T + 3000),
    ("polygenelubricants", 1300, T + 4500),
    ("TopicTest#k1", 2000, T + 9999),
]


@pytest.fixture
def index(tmp_path):
    """Empty files of 10 slots and 20 items."""
    made = index_in(tmp_path, 10, 20)
    yield made
    made.pool.close()


def index_in(directory, slot_count, item_count):
    disk = Disk()
    return IndexFiles(
        str(directory / "index"),
        str(directory / "scratch"),
        disk,
        FilePool(disk, 4, write=True),
        Geometry(slot_count, item_count),
        True,
    )


def add(index, *rows, at_once=True):
    for part in [rows] if at_once else [[row] for row in rows]:
        every, done = keys(*part), 0
        if not index.files:
            index.make(part[0][2])
        while done < len(part):
            done += index.append(every.behind(done))
    index.flush()


def bytes_of(index):
    return [Path(file.path).read_bytes() for file in index.files]


def test_structures_have_the_sizes_of_the_format():
    assert (HEADER_DTYPE.itemsize, ITEM_DTYPE.itemsize) == (40, 20)
    assert file_size(5_000_000, 20_000_000) == 420_000_040


@pytest.mark.parametrize("at_once", [True, False])
def test_five_puts_are_the_bytes_of_the_format(index, at_once):
    add(index, *FIVE, at_once=at_once)

    assert bytes_of(index) == [FIVE_PUTS]


def test_a_file_that_follows_counts_its_first_second_from_the_one_before(tmp_path):
    index = index_in(tmp_path, 10, 6)
    add(index, *FIVE, ("TopicTest#k9", 3000, T + 15_000))

    _, second = bytes_of(index)
    assert second[:HEADER_SIZE].hex(" ", -8) == (
        "0000018bcfe5a313 0000018bcfe5a313 0000000000000bb8 0000000000000bb8 0000000100000002"
    )
    first_item = struct.unpack_from(">iqii", second, 40 + 10 * 4 + ITEM_SIZE)
    assert first_item == (0x29E6B0, 3000, 5, 0)
    index.pool.close()


def test_a_file_of_room_for_three_holds_two(tmp_path):
    index = index_in(tmp_path, 10, 3)
    add(index, *FIVE[:3])

    first, second = index.files
    assert (first.item_count, first.is_full, first.header.next_item) == (2, True, 3)
    assert second.item_count == 1
    index.pool.close()


@pytest.mark.parametrize("at_once", [True, False])
def test_files_are_those_of_a_writer_that_puts_key_by_key(tmp_path, at_once):
    """Against RocketMQ's ``putKey``, word for word, with times that jump and keys that repeat."""
    random = np.random.default_rng(7)
    rows, offset, time = [], 0, T
    for _ in range(300):
        offset += int(random.integers(0, 90))
        time += int(random.integers(-4000, 9000))
        rows.append((f"T#{random.integers(0, 40)}", offset, time))
    index = index_in(tmp_path, 7, 101)

    add(index, *rows, at_once=at_once)

    assert bytes_of(index) == one_by_one(rows, 7, 101)
    index.pool.close()


@pytest.mark.parametrize("begin", [0, -5, 1 << 62])
def test_times_that_no_clock_tells_are_clamped_as_java_clamps_them(tmp_path, begin):
    rows = [("T#a", 0, begin), ("T#b", 100, begin + 5_000), ("T#a", 200, -begin - 1)]
    index = index_in(tmp_path, 7, 10)

    add(index, *rows)

    assert bytes_of(index) == one_by_one(rows, 7, 10)
    index.pool.close()


def one_by_one(rows, slot_count, item_count):
    """Files as a writer makes them that knows one key at a time."""
    files, ends = [], (0, 0)
    for text, offset, time in rows:
        if not files or files[-1]["next"] >= item_count:
            files.append(
                {"begin": ends, "end": ends, "used": 0, "next": 1, "slots": {}, "items": b""}
            )
        file = files[-1]
        hashed = abs(java_string_hash(text))
        hashed = 0 if hashed > 0x7FFFFFFF else hashed
        slot = hashed % slot_count
        previous = file["slots"].get(slot, 0)
        difference = (time - file["begin"][0] + (1 << 63)) % (1 << 64) - (1 << 63)
        seconds = min(max(int(difference / 1000), 0), 0x7FFFFFFF) if file["begin"][0] > 0 else 0
        file["items"] += struct.pack(">iqii", hashed, offset, seconds, previous)
        file["slots"][slot] = file["next"]
        if file["next"] <= 1:
            file["begin"] = (time, offset)
        file["used"] += previous == 0
        file["next"] += 1
        file["end"] = (time, offset)
        ends = tuple(max(each, 0) for each in file["end"])
    return [
        (
            struct.pack(
                ">qqqqii",
                file["begin"][0],
                file["end"][0],
                file["begin"][1],
                file["end"][1],
                file["used"],
                file["next"],
            )
            + b"".join(struct.pack(">i", file["slots"].get(slot, 0)) for slot in range(slot_count))
            + bytes(ITEM_SIZE)
            + file["items"]
        ).ljust(file_size(slot_count, item_count), b"\0")
        for file in files
    ]


def test_a_header_without_items_is_zero():
    assert Header(1, 2, 3, 4, 5, 1).encode() == bytes(HEADER_SIZE)
    assert Header.decode(bytes(HEADER_SIZE)).next_item == 1
    assert Header.decode(b"\xff" * HEADER_SIZE).next_item == 1


@pytest.mark.parametrize(
    ("timestamp", "name"),
    [
        (T, 20231114221320123),
        (0, 19700101000000000),
        (-1, 19700101000000000),
        (1 << 62, 99991231235959999),
    ],
)
def test_files_are_named_by_the_time_in_utc(timestamp, name):
    assert name_of_time(timestamp) == name


def test_names_ascend_also_where_time_does_not(tmp_path):
    index = index_in(tmp_path, 10, 3)

    add(index, ("T#a", 0, T), ("T#a", 10, T), ("T#a", 20, T), ("T#a", 30, T), ("T#a", 40, T - 9999))

    names = [file.name for file in index.files]
    assert names == [20231114221320123, 20231114221320124, 20231114221320125]
    index.pool.close()

"""Frames of replication: transfers come in wherever bytes are parted, and nothing else."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_client.remoting import (
    NOTHING_REPORTED,
    Transfer,
    TransferError,
    TransferReader,
    encode_report,
    encode_transfer,
    last_report,
)
from reput_client.remoting.framing.replication import ROOM_SIZE, SIZE_MAX


def frame(offset: int, data: bytes = b"") -> bytes:
    return struct.pack(">qi", offset, len(data)) + data


def feed(reader: TransferReader, data: bytes) -> list[Transfer]:
    reader.room()[: len(data)] = data
    return reader.received(len(data))


@given(
    st.lists(st.binary(max_size=40), max_size=12),
    st.lists(st.integers(0, 600), max_size=12),
)
def test_bytes_and_offsets_are_the_same_wherever_a_stream_is_parted(bodies, cuts):
    stream, offset = b"", 1_000
    for body in bodies:
        stream += frame(offset, body)
        offset += len(body)
    places = sorted({0, *(min(cut, len(stream)) for cut in cuts), len(stream)})
    reader = TransferReader()

    found = [
        each
        for start, end in itertools.pairwise(places)
        for each in feed(reader, stream[start:end])
    ]

    assert b"".join(each.data for each in found) == b"".join(bodies)
    assert sum(not each.data for each in found) == sum(not body for body in bodies)
    position = 1_000
    for each in found:
        assert each.physical_offset == position
        position = each.end_offset


def test_transfers_that_came_together_and_go_on_are_one():
    reader = TransferReader()

    found = feed(reader, frame(10, b"ab") + frame(12, b"cd") + frame(99, b"x") + frame(100))

    assert found == [Transfer(10, b"abcd"), Transfer(99, b"x"), Transfer(100, b"")]


@pytest.mark.parametrize("size", [-1, SIZE_MAX + 1, (1 << 31) - 1])
def test_a_size_that_no_master_sends_is_refused_before_its_bytes_come(size):
    reader = TransferReader("10.0.0.1:10912")

    with pytest.raises(TransferError, match=rf"10\.0\.0\.1:10912, byte 8 .*size of {size}"):
        feed(reader, struct.pack(">qi", 0, size))


def test_an_offset_that_no_log_has_is_refused():
    with pytest.raises(TransferError, match="an offset of -5"):
        feed(TransferReader(), frame(-5, b"x"))


def test_the_longest_transfer_fits():
    reader, data = TransferReader(), bytes(SIZE_MAX)

    feed(reader, frame(0, b"")[:5])
    rest = frame(0, b"")[5:] + frame(0, data)
    found = []
    while rest:
        room = len(reader.room())
        found += feed(reader, rest[:room])
        rest = rest[room:]

    assert found == [Transfer(0, b""), Transfer(0, data)]


def test_a_reader_of_usual_transfers_needs_little_memory():
    tracemalloc.start()
    try:
        reader = TransferReader()
        for at in range(100):
            feed(reader, frame(at << 15, bytes(1 << 15)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < ROOM_SIZE + (256 << 10)


def test_reports_are_eight_bytes_and_an_observer_acknowledges_nothing():
    assert encode_report(5_242_880) == struct.pack(">q", 5_242_880)
    assert encode_report(NOTHING_REPORTED) == struct.pack(">q", -(2**50))


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, (None, 0)), (7, (None, 0)), (8, (5, 8)), (23, (6, 16)), (24, (7, 24))],
)
def test_a_master_takes_the_last_whole_report(size, expected):
    data = struct.pack(">qqq", 5, 6, 7)

    assert last_report(data[:size]) == expected


def test_a_transfer_is_its_header_and_the_bytes_of_the_log():
    assert encode_transfer(1 << 40, 3) + b"abc" == frame(1 << 40, b"abc")

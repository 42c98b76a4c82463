"""Units against their description and its vectors."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.record import java_string_hash
from reput_consumequeue.layout import (
    PRE_BLANK_SIZE,
    UNIT_DTYPE,
    UNIT_SIZE,
    UNITS_PER_FILE,
    pre_blank_units,
    valid_count,
)

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)


def _units(*rows):
    return np.array(list(rows), UNIT_DTYPE)


def test_a_unit_has_20_bytes_and_a_file_of_the_usual_size_six_million():
    assert UNIT_DTYPE.itemsize == UNIT_SIZE == 20
    assert UNITS_PER_FILE * UNIT_SIZE == 6_000_000


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(LONGS, INTS, LONGS), max_size=5))
def test_units_are_what_struct_packs_big_endian(rows):
    packed = b"".join(struct.pack(">qiq", *row) for row in rows)

    assert _units(*rows).tobytes() == packed
    assert np.frombuffer(packed, UNIT_DTYPE).tolist() == rows


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("TagA", "0000000040000000 000000ae 000000000027a807"),
        ("tag-中文", "0000000040000000 000000ae ffffffffcb82680d"),
    ],
)
def test_a_unit_holds_the_hash_of_the_tags_with_its_sign(tags, expected):
    unit = _units((1_073_741_824, 174, java_string_hash(tags)))

    assert unit.tobytes() == bytes.fromhex(expected)


def test_a_pre_blank_unit_points_nowhere_and_has_the_largest_size():
    blank = pre_blank_units(1)

    assert blank == bytes.fromhex("0000000000000000 7fffffff 0000000000000000")
    assert pre_blank_units(3) == 3 * blank
    assert pre_blank_units(0) == b""
    assert np.frombuffer(blank, UNIT_DTYPE)["size"][0] == PRE_BLANK_SIZE


@pytest.mark.parametrize("none", [(0, 0, 0), (-1, 100, 0), (5, -1, 0), (5, 0, 7)])
def test_valid_units_are_counted_up_to_the_first_without_size_or_with_a_negative_offset(none):
    good = (0, 91, 0)

    assert valid_count(_units(good, good, none, good)) == 2
    assert valid_count(_units(none)) == 0
    assert valid_count(_units(good, good)) == 2
    assert valid_count(_units()) == 0

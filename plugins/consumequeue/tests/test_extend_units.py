"""Extend units read at once: bit maps as a sequence and as columns, wherever the units stand."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput_consumequeue.extend.extendunits import read_units
from reput_consumequeue.extend.layout import addresses_of

FILE_SIZE = 1 << 16


def unit(tags_code, store_timestamp, bit_map):
    return (
        struct.pack(">hqqh", 20 + len(bit_map), tags_code, store_timestamp, len(bit_map)) + bit_map
    )


def files_with(units):
    """Files by base, from units by position."""
    files = {}
    for position, data in units.items():
        base = position - position % FILE_SIZE
        file = files.setdefault(base, bytearray(FILE_SIZE))
        file[position - base : position - base + len(data)] = data
    return files


def reader(files, asked):
    def read(base, position, size):
        asked.append(size)
        return bytes(files.get(base, b"")[position : position + size])

    return read


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=20), st.booleans()), max_size=30))
def test_units_are_read_wherever_they_stand(described):
    units, codes, expected, at = {}, [], [], 0
    for number, (gap, bit_map, is_plain) in enumerate(described):
        at += gap * 1_000
        if at % FILE_SIZE > FILE_SIZE - 100:
            at += 200
        codes.append(number if is_plain else int(addresses_of(np.int64(at))))
        expected.append((number, -1, None) if is_plain else (number, 5 + number, bit_map or None))
        if not is_plain:
            units[at] = unit(number, 5 + number, bit_map)
            at += len(units[at])

    found = read_units(np.array(codes, np.int64), FILE_SIZE, reader(files_with(units), []))

    facts = zip(
        found.tags_codes.tolist(), found.store_timestamps.tolist(), found.bit_maps, strict=True
    )
    assert list(facts) == expected
    assert found.is_known.all()
    assert list(found.bit_maps[1:]) == [each for *_, each in expected[1:]]


@pytest.mark.parametrize("step", [1, -1])
def test_little_is_kept_of_units_that_are_far_apart(step):
    positions = np.arange(0, 100 * 16_000, 16_000)[::step]
    units = {int(at): unit(1, 2, b"abc") for at in positions if at % FILE_SIZE < FILE_SIZE - 50}

    found = read_units(addresses_of(positions), FILE_SIZE, reader(files_with(units), []))

    assert set(found.bit_maps) <= {b"abc", None}
    assert found.is_known.sum() == len(units)
    assert len(found.bit_maps.window) <= 3 * len(units)


def test_neighbours_are_read_in_one_go():
    units = {at: unit(at, 2, b"\x01" * 14) for at in range(0, 34 * 800, 34)}
    asked = []

    found = read_units(
        addresses_of(np.array(list(units))), FILE_SIZE, reader(files_with(units), asked)
    )

    assert len(asked) == 1
    assert found.tags_codes.tolist() == list(units)
    assert set(found.bit_maps) == {b"\x01" * 14}

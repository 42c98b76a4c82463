"""The pages about the plugin say what the code does."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np

import reput
from reput_integrity.layout import UNIT_DTYPE, unit_check

ROOT = Path(__file__).parents[3]


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_readme_says_how_a_unit_is_checked():
    """The formula as it stands there, in plain integers, for a file of a large base."""
    text = text_of("plugins/integrity/README.md")
    factors = [int(found, 16) for found in re.findall(r"× (0x[0-9A-F]{8})", text)]
    base, position, size, crc = 5 << 32 | 77, 123_456_789, 4_000_000_000, 0xDEADBEEF
    version, low, high, first, second, third, last = factors

    seed = version + base % 2**32 * low + (base >> 32) * high
    check = (position * first + size * second + crc * third + seed) % 2**32
    check ^= check >> 16
    check = check * last % 2**32
    check ^= check >> 15

    fields = [np.array([value], np.uint32) for value in (position, size, crc)]
    assert int(unit_check(base, *fields)[0]) == check


def test_a_file_holds_what_the_readme_says(tmp_path):
    """Read back with `struct` and zlib alone."""
    with reput.open(tmp_path / "s", plugins=["integrity"], threads=False) as store:
        for number in range(3):
            store.put(reput.Message("orders", b"%d" % number, keys="k"))
        store.wait_dispatched()
        end = store.log.max_physical_offset
        log = store.log.read(0, end)

    (path,) = (tmp_path / "s" / "integrity" / "sums").iterdir()
    units = list(struct.iter_unpack(">IIII", path.read_bytes()))
    assert len(units) == 3
    assert UNIT_DTYPE.itemsize == 16
    assert path.name == "0" * 20
    at = 0
    for position, size, crc, _ in units:
        assert position == at
        assert crc == zlib.crc32(log[at : at + size])
        at += size
    assert at == end

"""Compressed bodies in Arrow: unpacked, or as stored."""

from __future__ import annotations

import sys
import zlib

import pyarrow as pa
import pytest

import reput
from reput.errors import CodecNotFoundError, UnpackError
from reput_arrow import bodies, columns_of, to_arrow
from reput_testing import SmallLog

TEXT = b"a long text, " * 100
ZLIB, LZ4 = 0x301, 0x101
KEPT = []


def batch_of(*stored):
    """A batch of messages: body as stored, system flag."""
    log = SmallLog(65_536)
    for body, sys_flag in stored:
        log.append(reput.Message("T", body, sys_flag=sys_flag))
    scan = log.scan()
    KEPT.append(scan)  # a batch is valid until the next one is asked for
    return next(scan)


def rows(batch, **options):
    made = to_arrow(batch, ["body", "sys_flag"], **options)
    made.validate(full=True)
    return [tuple(row.values()) for row in made.to_pylist()]


def test_bodies_are_unpacked_and_their_flags_say_so() -> None:
    lz4 = pytest.importorskip("lz4.frame").compress(TEXT)
    stored = [(b"plain", 0), (zlib.compress(TEXT), ZLIB | 0x8), (b"", 0), (lz4, LZ4)]
    batch = batch_of(*stored)

    assert rows(batch) == [(b"plain", 0), (TEXT, 0x8), (b"", 0), (TEXT, 0)]
    assert rows(batch, raw=True) == stored
    assert to_arrow(batch, ["body"]).column(0).to_pylist() == [b"plain", TEXT, b"", TEXT]


def test_flags_alone_are_as_stored() -> None:
    batch = batch_of((zlib.compress(TEXT), ZLIB))

    assert to_arrow(batch, ["sys_flag"]).column(0).to_pylist() == [ZLIB]


def test_a_body_that_is_not_what_its_flag_says_stays_with_its_flag() -> None:
    batch = batch_of((b"not packed", ZLIB), (zlib.compress(TEXT), ZLIB), (b"?", 0x501))

    assert rows(batch) == [(b"not packed", ZLIB), (TEXT, 0), (b"?", 0x501)]


def test_what_was_unpacked_can_be_put_again(tmp_path) -> None:
    made = to_arrow(batch_of((zlib.compress(TEXT), ZLIB), (b"not packed", ZLIB)))

    with reput.open(tmp_path / "store", plugins=[]) as store:
        store.put_many(columns_of(made))
        stored = [batch.message(row) for batch in store.scan() for row in range(len(batch))]

    assert [(view.body, view.compression) for view in stored] == [
        (TEXT, None),
        (b"not packed", "zlib"),
    ]


def test_parts_of_a_batch_are_unpacked_alike() -> None:
    batch = batch_of((b"a", 0), (zlib.compress(TEXT), ZLIB), (b"c", 0), (zlib.compress(b"d"), ZLIB))

    assert rows(batch[1:3]) + rows(batch[3:]) == [(TEXT, 0), (b"c", 0), (b"d", 0)]


def test_bodies_of_a_batch_are_bounded_in_all(monkeypatch) -> None:
    monkeypatch.setattr(bodies, "UNPACKED_TOTAL_MAX", 2 * len(TEXT))
    packed = (zlib.compress(TEXT), ZLIB)

    assert rows(batch_of(packed, packed)) == [(TEXT, 0)] * 2
    with pytest.raises(UnpackError, match=r"batch\[i:j\].*raw=True"):
        rows(batch_of(packed, packed, packed))


def test_a_missing_library_is_an_error_that_raw_avoids(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    batch = batch_of((b"whatever", LZ4))

    with pytest.raises(CodecNotFoundError, match=r"pip install './core\[compression\]"):
        to_arrow(batch)
    assert rows(batch, raw=True) == [(b"whatever", LZ4)]
    assert isinstance(to_arrow(batch, ["topic"]), pa.RecordBatch)

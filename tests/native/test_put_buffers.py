"""Columns in buffers that somebody else may write to: what is stored is what the call was given."""

from __future__ import annotations

import contextlib
import itertools
import threading

import numpy as np
import pytest
from bothengines import python_engine

import reput
from reput.record.checksum import crc32

pytestmark = pytest.mark.shows("values")

ENGINES = pytest.mark.parametrize("engine", [python_engine, contextlib.nullcontext])
BODIES = [b"first", b"", b"the third body"]
ENDS = np.array([0, *itertools.accumulate(map(len, BODIES))], np.int32)


def read_only_array(data):
    view = np.frombuffer(data, np.uint8)
    view.flags.writeable = False
    return view


BUFFERS = pytest.mark.parametrize(
    "buffer",
    [
        memoryview,
        lambda data: memoryview(data).toreadonly(),
        lambda data: memoryview(memoryview(data).toreadonly()),
        read_only_array,
        lambda data: np.frombuffer(data, np.uint8),
        lambda data: data,
    ],
    ids=["view", "read-only view", "view of a view", "read-only array", "array", "bytearray"],
)


def stored_after(root, columns, change):
    """What is stored if ``change`` runs between the checks and the first byte that is written."""
    is_putting = False

    def clock():
        if is_putting:
            change()
        return 1_700_000_000_000

    with reput.open(root, plugins=[], threads=False, clock=clock) as store:
        store.put(reput.Message("T", b"makes the file"))
        is_putting = True
        receipt = store.put_many(columns)
        is_putting = False
        return [store.log.read_message(each.physical_offset) for each in receipt]


@ENGINES
@BUFFERS
def test_bodies_that_change_after_the_checks_are_stored_as_they_were(tmp_path, engine, buffer):
    data = bytearray(b"".join(BODIES))

    def change():
        data[:] = b"?" * len(data)

    with engine():
        columns = reput.Columns(topic="T", body=(ENDS, buffer(data)))
        found = stored_after(tmp_path / "store", columns, change)

    assert [view.body for view in found] == BODIES
    assert [view.body_crc for view in found] == [crc32(body) & 0x7FFFFFFF for body in BODIES]


@ENGINES
@BUFFERS
def test_texts_that_change_after_the_checks_are_stored_as_they_were(tmp_path, engine, buffer):
    words = [b"one", b"two", b"three"]
    data = bytearray(b"".join(words))
    ends = np.array([0, *itertools.accumulate(map(len, words))], np.int64)

    def change():
        data[:] = b"\x02" * len(data)

    with engine():
        columns = reput.Columns(topic="T", body=BODIES, keys=(ends, buffer(data)))
        found = stored_after(tmp_path / "store", columns, change)

    assert [view.keys for view in found] == [("one",), ("two",), ("three",)]


@ENGINES
@BUFFERS
def test_bodies_that_a_thread_writes_to_are_stored_with_their_checksums(tmp_path, engine, buffer):
    data, is_done = bytearray(b"x" * 30_000), threading.Event()
    ends = np.arange(0, len(data) + 1, 1_000, dtype=np.int32)

    def write():
        memory = np.frombuffer(data, np.uint8)
        while not is_done.is_set():
            memory[:] = ord("y")
            memory[:] = ord("x")

    writer = threading.Thread(target=write)
    with engine(), reput.open(tmp_path, plugins=[], threads=False) as store:
        writer.start()
        try:
            columns = reput.Columns(topic="T", body=(ends, buffer(data)))
            receipts = [each for _ in range(20) for each in store.put_many(columns)]
        finally:
            is_done.set()
            writer.join()
        views = [store.log.read_message(each.physical_offset) for each in receipts]

    assert len(views) == 20 * (len(ends) - 1)
    assert all(view.body_crc == crc32(view.body) & 0x7FFFFFFF for view in views)


@ENGINES
@BUFFERS
def test_what_stands_before_and_after_the_rows_is_not_stored(tmp_path, engine, buffer):
    data = bytearray(b"before " + b"".join(BODIES) + b" after")

    with engine():
        columns = reput.Columns(topic="T", body=(ENDS + len(b"before "), buffer(data)))
        found = stored_after(tmp_path / "store", columns, lambda: None)

    assert [view.body for view in found] == BODIES


def outcome(root, columns):
    with reput.open(root, plugins=[], threads=False) as store:
        try:
            receipt = store.put_many(columns)
        except Exception as error:
            return type(error), str(error)
        return [store.log.read_message(each.physical_offset).record[88:] for each in receipt]


ROWS = np.arange(48, dtype=np.uint8).reshape(6, 8)
EMPTY_TEXTS = (np.zeros(4, np.int64), b"")


@pytest.mark.parametrize(
    "columns",
    [
        {"body": (np.array([0, 1, 3, 6]), ROWS)},
        {"body": (np.array([0, 1, 3, 6]), memoryview(ROWS))},
        {"body": (np.array([0, 1, 3, 6]), memoryview(ROWS.tobytes()).cast("B", (6, 8)))},
        {"body": (np.array([0, 1, 3, 6]), ROWS[::2].ravel()[::2])},
        {"body": (np.array([0, 1, 3, 6]), np.arange(6, dtype=np.int32))},
        {"body": (np.array([0, 1, 3, 6]), np.arange(6, dtype=np.int8))},
        {"body": (np.array([0, 1, 3, 6]), np.arange(6) > 2)},
        {"body": (np.array([0, 1, 3, 6]), np.array([b"a", b"b"] * 3))},
        {"body": (np.array([0, 1, 3, 6]), np.void(b"123456"))},
        {"body": (np.array([0, 1, 3, 7]), np.arange(6, dtype=np.uint8))},
        {"body": (np.array([0, 3, 1, 6]), np.arange(6, dtype=np.uint8))},
        {"body": (np.array([-1, 3, 4, 6]), np.arange(6, dtype=np.uint8))},
        {"body": (np.array([0, 9, 4, 6]), b"123456")},
        {"body": BODIES, "keys": EMPTY_TEXTS, "properties": b"a\x01b\x02"},
        {"body": BODIES, "keys": EMPTY_TEXTS, "properties": [b"a\x01b\x02"] * 3},
        {"body": BODIES, "keys": EMPTY_TEXTS, "properties": {"KEYS": "k"}},
        {"body": BODIES, "keys": EMPTY_TEXTS},
        {"body": BODIES, "tags": EMPTY_TEXTS, "properties": [b"a\x01b\x02"] * 3},
        {"body": BODIES, "keys": [""] * 3, "properties": [b"a\x01b\x02"] * 3},
        {"body": BODIES, "keys": "", "properties": b""},
        {"body": BODIES, "keys": [[], (), None], "properties": [None, {}, b""]},
    ],
    ids=lambda columns: None,
)
def test_columns_of_any_shape_are_stored_or_refused_alike(tmp_path, columns):
    columns = reput.Columns(topic="T", **columns)
    with python_engine():
        expected = outcome(tmp_path / "python", columns)

    assert outcome(tmp_path / "native", columns) == expected

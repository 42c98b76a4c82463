"""Property texts of Arrow's columns: the kernel joins what Python joins, and reads no byte more."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput_native
from reput_arrow.propertytexts import joined_texts, property_texts

TEXT = st.text(st.sampled_from("ab 值é\x01\x02\0"), max_size=5)
WORD = st.text(st.sampled_from("ab值"), max_size=3) | TEXT
NAME = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "__CRC32#", "WAIT", "值"]) | TEXT
STRING, LIST, MAP = pa.string(), pa.list_(pa.string()), pa.map_(pa.string(), pa.string())
ROWS = st.lists(
    st.tuples(
        st.none() | st.lists(st.none() | WORD, max_size=3),
        st.none() | TEXT,
        st.none() | TEXT,
        st.none() | st.lists(st.tuples(NAME, st.none() | TEXT), max_size=4),
    ),
    max_size=9,
)


def outcome(function, *arguments):
    """Offsets and bytes, or how it fails."""
    try:
        offsets, data = function(*arguments)
    except Exception as error:
        return type(error), str(error)
    return offsets.dtype, offsets.tolist(), data


def assert_alike(*arguments):
    expected = outcome(joined_texts.__wrapped__, *arguments)

    assert outcome(joined_texts, *arguments) == expected
    return expected


def columns_of(rows, kinds=(LIST, STRING, STRING, MAP)):
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]


@given(ROWS, st.tuples(*[st.booleans()] * 4), st.integers(0, 4), st.integers(0, 9))
@settings(max_examples=300, deadline=None)
def test_any_columns_and_slices_of_them(rows, given, first, count):
    columns = [each.slice(first, count) for each in columns_of(rows)]
    columns = [column if used else None for column, used in zip(columns, given, strict=True)]

    assert_alike(max(0, min(count, len(rows) - first)), *columns)


CLEAN = st.text(st.sampled_from("ab值"), max_size=3)


@given(
    st.lists(
        st.tuples(
            st.none() | st.lists(st.none() | CLEAN, max_size=3),
            st.none() | CLEAN,
            st.none() | CLEAN,
            st.none() | st.lists(st.tuples(st.sampled_from(["KEYS", "a"]), st.none() | CLEAN)),
        ),
        min_size=1,
        max_size=9,
    )
)
@settings(max_examples=150, deadline=None)
def test_the_kernel_itself_joins_plain_columns(rows):
    columns = columns_of(rows)

    offsets, data = reput_native.joined_texts(len(rows), *columns)

    expected, texts = joined_texts.__wrapped__(len(rows), *columns)
    assert (offsets.tolist(), data) == (expected.tolist(), texts)


@given(st.lists(st.none() | TEXT, min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_keys_may_be_one_text(texts):
    assert_alike(len(texts), pa.array(texts, STRING), None, None, None)


@pytest.mark.parametrize(
    "kinds",
    [
        (pa.large_list(STRING), STRING, STRING, MAP),
        (pa.list_(pa.large_string()), pa.large_string(), pa.dictionary(pa.int32(), STRING), MAP),
        (pa.null(), pa.null(), pa.null(), MAP),
        (LIST, STRING, STRING, pa.map_(pa.large_string(), STRING)),
        (LIST, STRING, STRING, pa.map_(STRING, pa.large_string())),
    ],
    ids=str,
)
def test_columns_of_other_types_are_joined_in_python(kinds):
    text = None if kinds[0] == pa.null() else "t"
    rows = [(text and ["a", "b"], text, text, [("x", "1")]), (None, None, None, None)]
    columns = columns_of(rows, kinds)

    assert reput_native.joined_texts(2, *columns) is NotImplemented
    assert len(assert_alike(2, *columns)[2]) > 0


def test_rows_that_are_null_may_have_elements():
    words, names = pa.array(["a", "b", "c"]), pa.array(["x", "y", "z"])
    ends, mask = pa.array([0, 1, 3], pa.int32()), pa.array([False, True])
    keys = pa.ListArray.from_arrays(ends, words, mask=mask)
    further = pa.MapArray.from_arrays(ends, names, words)
    bits = pa.py_buffer(b"\x01")
    further = pa.Array.from_buffers(
        MAP,
        2,
        [bits, further.buffers()[1]],
        children=[
            pa.StructArray.from_arrays(
                [names, words], fields=[pa.field("key", STRING, False), pa.field("value", STRING)]
            )
        ],
    )

    found = assert_alike(2, keys, None, None, further)

    assert found[1:] == ([0, len(b"KEYS\1a\2x\1a\2")] * 1 + [11], b"KEYS\1a\2x\1a\2")


@pytest.mark.parametrize("offsets", [[0, 9], [2, 1], [-1, 1], [-5, -3], [3, 4]])
@pytest.mark.parametrize("place", ["text", "list"])
def test_offsets_that_lead_out_of_the_data_are_not_followed(offsets, place):
    """pyarrow checks them once; who has the memory of the buffer may change them."""
    memory = np.array([0, 1], np.int32)
    borders = pa.py_buffer(memory)
    if place == "text":
        column = pa.StringArray.from_buffers(1, borders, pa.py_buffer(b"abc"))
    else:
        column = pa.Array.from_buffers(LIST, 1, [None, borders], children=[pa.array(["a", "b"])])
    assert reput_native.joined_texts(1, column, None, None, None)[1] == b"KEYS\1a\2"

    memory[:] = offsets

    assert reput_native.joined_texts(1, column, None, None, None) is NotImplemented


@pytest.mark.parametrize("count", [-1, 0, 2, 1 << 70, None])
def test_columns_of_another_length_are_declined(count):
    assert reput_native.joined_texts(count, None, pa.array(["a"]), None, None) is NotImplemented


def test_texts_that_others_write_to_meanwhile_are_sound_or_refused():
    data = np.frombuffer(bytearray(b"x" * 20_000), np.uint8).copy()
    borders = pa.py_buffer(np.arange(0, 20_001, 20, dtype=np.int32))
    column = pa.StringArray.from_buffers(1_000, borders, pa.py_buffer(data))
    is_done, rounds = threading.Event(), 200

    def write():
        while not is_done.is_set():
            data[:] = 0xFF
            data[:] = ord("x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(rounds):
            found = reput_native.joined_texts(1_000, None, column, None, None)
            if found is not NotImplemented:
                assert found[1].decode().count("TAGS\x01" + "x" * 20 + "\x02") == 1_000
    finally:
        is_done.set()
        writer.join()


def test_a_batch_is_joined_by_the_names_of_its_columns():
    batch = pa.RecordBatch.from_pydict({"tags": ["t"], "keys": [["k"]], "other": [1]})

    assert property_texts(batch)[1] == b"KEYS\1k\2TAGS\1t\2"
    assert property_texts(batch.select(["other"])) is None


UP_TO_A_PAGE_THAT_NOBODY_MAY_READ = """
import ctypes, faulthandler, mmap, random
import numpy as np
import pyarrow as pa
import reput_native

faulthandler.enable()
page = mmap.PAGESIZE

def at_the_end_of_a_page(data):
    memory = mmap.mmap(-1, 2 * page)
    everything = np.frombuffer(memory, np.uint8)
    after = ctypes.c_void_p(everything.ctypes.data + page)
    assert ctypes.CDLL(None).mprotect(after, ctypes.c_size_t(page), 0) == 0
    everything[page - len(data) : page] = np.frombuffer(data, np.uint8)
    return pa.py_buffer(everything[page - len(data) : page])

chance = random.Random(3)
rows = size = 0
for _ in range(300):
    count, offset = chance.randrange(1, 20), chance.randrange(9)
    texts = [chance.choice([None, "", "a", "值" * chance.randrange(9)]) for _ in range(count)]
    whole = pa.concat_arrays([pa.array(["x"] * offset, pa.string()), pa.array(texts, pa.string())])
    bits, ends, data = whole.buffers()
    bits = None if bits is None else bits.to_pybytes()[: -(-len(whole) // 8)]
    ends = ends.to_pybytes()[: 4 * len(whole) + 4]
    data = b"" if data is None else data.to_pybytes()[: int.from_bytes(ends[-4:], "little")]
    guarded = [None if each is None else at_the_end_of_a_page(each) for each in (bits, ends, data)]
    column = pa.Array.from_buffers(pa.string(), count, guarded, offset=offset)
    offsets, found = reput_native.joined_texts(count, None, column, None, None)
    expected = [b"" if each is None else f"TAGS\\1{each}\\2".encode() for each in texts]
    assert (len(offsets), found) == (count + 1, b"".join(expected))
    rows, size = rows + count, size + len(found)
print(rows > 0 and size > 0)
"""


def test_nothing_behind_a_buffer_is_read():
    command = [sys.executable, "-c", UP_TO_A_PAGE_THAT_NOBODY_MAY_READ]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")

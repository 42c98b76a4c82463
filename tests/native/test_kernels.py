"""Kernel by kernel: arrays of any kind give what Python gives, errors included."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from bothengines import alike, is_kernel
from hypothesis import given, settings
from hypothesis import strategies as st

import reput_native
from reput.engine import ENGINE, INTERFACE
from reput.errors import KernelError, ReputError
from reput.files.readmap import map_size
from reput.files.system.disk import write_pieces
from reput.files.system.vectoredread import read_pieces
from reput.log.writer.appender import (
    append_rows,
    queue_offsets_of_rows,
    rows_of_columns,
    rows_of_messages,
)
from reput.plugin.putinterest import concerns_any, concerns_columns
from reput.record import java_string_hash, java_text, parse_properties
from reput.record.decode import cut_window
from reput.record.text.javatext import java_string_hash_column
from reput.record.text.properties import PropertyPlaces, property_places, texts_of
from reput.record.text.topicdictionary import topic_table
from reput_arrow.propertymaps import property_maps
from reput_arrow.propertytexts import joined_texts
from reput_consumequeue.reader.fastpath import sound_columns, sound_messages
from reput_consumequeue.reader.mappedread import read_whole
from reput_consumequeue.unitruns import units_by_queue
from reput_index.batchkeys import keys_of_texts
from reput_index.files.hashchain import make_items

KERNELS = (
    cut_window,
    java_string_hash_column,
    keys_of_texts,
    make_items,
    property_maps,
    property_places,
    texts_of,
    units_by_queue,
)
"""Kernels whose arguments are arrays; `test_appends`, `test_reads` and `test_arrow_texts` are
about the others."""
OTHERS = (
    append_rows,
    concerns_any,
    concerns_columns,
    joined_texts,
    map_size,
    queue_offsets_of_rows,
    read_pieces,
    read_whole,
    rows_of_columns,
    rows_of_messages,
    sound_columns,
    sound_messages,
    topic_table,
    write_pieces,
)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)


def column(values, dtype=np.int64):
    return np.array(values, dtype)


def outcome(function, *arguments):
    """What a call gives, or how it fails: for comparing."""
    try:
        answer = function(*arguments)
    except Exception as error:
        return type(error), str(error)
    parts = answer if isinstance(answer, tuple) else (answer,)
    return [_plain(part) for part in parts]


def _plain(part):
    if isinstance(part, np.ndarray):
        return alike(part)
    return type(part) if isinstance(part, PropertyPlaces) else part


def assert_alike(kernel, *arguments):
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    expected = outcome(kernel.__wrapped__, *copies)

    found = outcome(kernel, *arguments)

    assert found == expected
    assert [alike(each) for each in arguments if isinstance(each, np.ndarray)] == [
        alike(each) for each in copies if isinstance(each, np.ndarray)
    ]


def test_the_engine_runs_all_that_it_has():
    public = {name for name in reput_native.__all__ if name.islower() and name[0] != "_"}

    assert all(map(is_kernel, KERNELS + OTHERS))
    # `test_sending_lane.py`, `test_plain_values.py`, `test_shared_reads.py` of `tests/server` are
    # about them.
    of_the_server = {"send_lane", "plain_values", "write_sockets"}
    others = {"layout", "provoke_panic"} | of_the_server
    assert {kernel.__name__ for kernel in KERNELS + OTHERS} == public - others
    assert (ENGINE.name, ENGINE.version) == ("native", reput_native.__version__)
    assert reput_native.INTERFACE == INTERFACE


# --------------------------------------------------------------------------- hashes


@given(
    st.lists(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), max_size=9), st.data()
)
@settings(max_examples=150, deadline=None)
def test_hashes_of_texts_and_of_bytes_that_are_none(texts, data):
    window = np.frombuffer(b"".join(texts) + bytes(8), np.uint8)
    sizes = column([len(text) for text in texts])
    seeds = data.draw(st.none() | st.lists(int32s, min_size=len(texts), max_size=len(texts)))
    seeds = None if seeds is None else column(seeds, np.int32)

    assert_alike(java_string_hash_column, window, np.cumsum(sizes) - sizes, sizes, seeds)


@given(st.lists(st.none() | st.binary(max_size=40), max_size=9), st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_texts_and_missing_ones_are_copied(texts, before):
    window = np.frombuffer(bytes(before) + b"".join(text or b"" for text in texts), np.uint8)
    sizes = column([-1 if text is None else len(text) for text in texts])
    ends = before + np.cumsum(np.maximum(sizes, 0))
    starts = np.where(sizes < 0, 0, ends - sizes)

    assert_alike(texts_of, window, starts, sizes)
    assert texts_of(window, starts, sizes) == texts


@given(st.binary(max_size=12))
@settings(max_examples=250, deadline=None)
def test_a_hash_is_that_of_the_text_which_java_reads(text):
    window = np.frombuffer(text, np.uint8)

    (found,) = java_string_hash_column(window, column([0]), column([len(text)]))

    assert found == java_string_hash(java_text(text))


def test_every_pair_of_bytes_after_one_that_begins_a_character():
    texts = [
        bytes([first, second, third])
        for first in (0x41, 0x80, 0xC1, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF)
        for second in range(256)
        for third in (0x00, 0x7F, 0x80, 0xBF, 0xC0)
    ]
    window = np.frombuffer(b"".join(texts), np.uint8)

    starts = np.arange(len(texts)) * 3
    assert_alike(java_string_hash_column, window, starts, np.full(len(texts), 3))


ENTRIES = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"", "\u00e9".encode(), b"\xff", b"\1", b"\2"])
    | st.sampled_from([b"a\1x\2", b"b\1yy\2", b"ab\1z\2"]),
    max_size=9,
)


@given(st.lists(ENTRIES, max_size=6), st.integers(0, 9))
@settings(max_examples=400, deadline=None)
def test_entries_of_any_texts_become_maps(texts, before):
    rows = [b"".join(text) for text in texts]
    window = np.frombuffer(bytes(before) + b"".join(rows), np.uint8)
    sizes = column([len(text) for text in rows])
    starts = before + np.cumsum(sizes) - sizes

    assert_alike(property_maps, window, starts, sizes)
    first, names, letters, values, bytes_of_values = property_maps(window, starts, sizes)
    found = pairs(names, letters, values, bytes_of_values)
    for row, text in enumerate(rows):
        assert found[first[row] : first[row + 1]] == list(parse_properties(text).items())
    assert len(found) == first[-1]


def pairs(name_borders, names, value_borders, values):
    return list(zip(cut(name_borders, names), cut(value_borders, values), strict=True))


def cut(borders, data):
    ranges = itertools.pairwise(borders.tolist())
    return [data[start:end].tobytes().decode() for start, end in ranges]


@pytest.mark.parametrize(("count", "is_compiled"), [(0, True), (64, True), (65, False)])
def test_of_texts_with_many_entries_python_compares_the_names(count, is_compiled):
    text = b"".join(b"n%d\1v\2" % number for number in range(count))
    window = np.frombuffer(text + bytes(8), np.uint8)
    arguments = window, column([0]), column([len(text)])

    assert (reput_native.property_maps(*arguments) is not NotImplemented) is is_compiled
    assert_alike(property_maps, *arguments)


def test_a_name_that_a_text_has_twice_is_left_to_python():
    text = b"a\1x\2b\1y\2a\1z\2"
    arguments = np.frombuffer(text, np.uint8), column([0]), column([len(text)])

    assert reput_native.property_maps(*arguments) is NotImplemented
    assert pairs(*property_maps(*arguments)[1:]) == [("a", "z"), ("b", "y")]


# --------------------------------------------------------------------------- rows that lead away


PLACES = st.sampled_from([-(1 << 63), -9, -1, 0, 1, 5, 39, 40, 41, 1 << 31, 1 << 40, (1 << 63) - 1])


@given(st.lists(st.tuples(PLACES, PLACES), max_size=5))
@settings(max_examples=150, deadline=None)
def test_rows_outside_of_the_window_are_not_read(rows):
    window = np.frombuffer(b"TAGS\x01x\x02".ljust(40, b"\xff"), np.uint8)
    starts = column([start for start, _ in rows])
    sizes = column([size for _, size in rows])

    native = (
        reput_native.java_string_hash_column(window, starts, sizes),
        reput_native.property_places(window, starts, sizes),
        reput_native.texts_of(window, starts, sizes),
    )

    inside = all(size <= 0 or (start >= 0 and start + size <= 40) for start, size in rows)
    assert [answer is not NotImplemented for answer in native] == [inside] * 3
    assert inside or reput_native.property_maps(window, starts, sizes) is NotImplemented


def test_a_table_of_topics_reads_no_name_outside_of_its_window():
    table = topic_table()

    with pytest.raises(IndexError, match="leaves its window"):
        table.encode(np.zeros(4, np.uint8), column([2]), column([3]))

    assert table.names == []


def test_texts_that_were_changed_after_the_question_are_measured_again():
    sizes = column([3])
    places = property_places(np.zeros(4, np.uint8), column([1]), sizes)

    sizes[0] = 4

    with pytest.raises(IndexError, match="leaves its window"):
        places.find(b"TAGS")


# --------------------------------------------------------------------------- arrays of other kinds


def strided(array):
    return np.repeat(array, 2)[::2]


def swapped(array):
    return array.astype(array.dtype.newbyteorder(">"))


def unaligned(array):
    shifted = np.zeros(array.nbytes + 1, np.uint8)
    shifted[1:] = array.view(np.uint8)
    return shifted[1:].view(array.dtype)


@pytest.mark.parametrize("other", [strided, swapped, unaligned])
def test_arrays_of_other_kinds_give_the_same(other):
    window = np.frombuffer(b"TAGS\x01tag\x02KEYS\x01a b\x02", np.uint8)
    starts, sizes, seeds = column([0, 9]), column([9, 9]), column([5, 7], np.int32)
    four = column([0, 0, 8, 4], np.int32)

    for arguments in (
        (other(window), starts, sizes, seeds),
        (window, other(starts), sizes, seeds),
        (window, starts, other(sizes), seeds),
        (window, starts, sizes, other(seeds)),
    ):
        if other is not strided or arguments[0] is window:
            assert_alike(java_string_hash_column, *arguments)
    assert_alike(units_by_queue, other(four), *(column(range(4), t) for t in "iiqqqq"))
    codes = column([1, 0], np.int32)
    keys = (starts, sizes, starts, sizes, codes, seeds, starts, sizes)
    assert_alike(keys_of_texts, window, *map(other, keys))
    places, expected = property_places(window, other(starts), sizes), None
    expected = property_places.__wrapped__(window, starts, sizes)
    assert outcome(places.find, b"TAGS") == outcome(expected.find, b"TAGS")


@pytest.mark.parametrize("codes", [[0, 2], [-1, 0], [0, -3]])
def test_keys_of_topics_beside_the_table_are_those_of_python(codes):
    window = np.frombuffer(b"ab", np.uint8)
    starts, sizes, seeds = column([0, 1]), column([1, 1]), column([5, 7], np.int32)
    keys = (window, starts, sizes, starts, sizes, column(codes, np.int32), seeds, starts, sizes)

    assert outcome(keys_of_texts, *keys) == outcome(keys_of_texts.__wrapped__, *keys)


READING = (read_pieces, read_whole, sound_columns, sound_messages, write_pieces)


@pytest.mark.parametrize("kernel", KERNELS + READING, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("argument", [None, "text", 5, b"bytes", [1, 2], 1 << 70, np.zeros((2, 2))])
def test_arguments_that_are_no_columns_fail_as_in_python(kernel, argument):
    count = kernel.__wrapped__.__code__.co_argcount

    assert outcome(kernel, *[argument] * count) == outcome(kernel.__wrapped__, *[argument] * count)


def test_columns_of_different_lengths_fail_as_in_python():
    long, short = column(range(4)), column(range(3))
    flags = np.zeros(4, np.int32)

    assert_alike(java_string_hash_column, np.zeros(9, np.uint8), long, short)
    assert_alike(units_by_queue, flags, flags, flags, long, long, short, long)
    items = (np.zeros(9, np.int32), flags, short, long, 1, 0)
    assert outcome(make_items, *items) == outcome(make_items.__wrapped__, *items)


# --------------------------------------------------------------------------- units and items


rows = st.tuples(
    st.sampled_from([0, 0, 0, 1, 4, 8, 12, -1]),
    st.integers(0, 5) | st.sampled_from([70_000]),
    st.integers(0, 3) | st.sampled_from([-1, -(1 << 31), (1 << 31) - 1, 100_000]),
    st.integers(0, 6) | int64s,
    st.integers(0, 1 << 40),
    st.integers(91, 1 << 26) | int64s,
    int64s,
)


@given(st.lists(rows, max_size=40))
@settings(max_examples=200, deadline=None)
def test_units_of_messages_of_any_queues(messages):
    columns = list(zip(*messages, strict=True)) or [()] * 7
    kinds = (np.int32, np.int32, np.int32, np.int64, np.int64, np.int64, np.int64)

    with np.errstate(over="ignore"):
        assert_alike(units_by_queue, *map(column, columns, kinds))


@given(
    st.lists(
        st.tuples(st.integers(0, 40) | st.integers(0, (1 << 31) - 1), int64s, int64s), max_size=60
    ),
    st.integers(1, 30),
    st.sampled_from([1, 2, 900]),
    st.sampled_from([-5, 0, 1, 1_700_000_000_000]),
)
@settings(max_examples=200, deadline=None)
def test_items_of_keys_and_what_is_left_in_the_slots(keys, slot_count, first, begin):
    if not keys:
        return
    hashes, offsets, timestamps = zip(*keys, strict=True)
    slots = (np.arange(slot_count, dtype=np.int32) * 7) % (first or 1)

    with np.errstate(over="ignore"):
        assert_alike(
            make_items,
            slots,
            column(hashes, np.int32),
            column(offsets),
            column(timestamps),
            first,
            begin,
        )


def test_items_past_the_last_number_are_left_to_python():
    keys = (np.zeros(3, np.int32), column(range(3)), column(range(3)))
    slots = np.zeros(4, np.int32)

    assert reput_native.make_items(slots, *keys, (1 << 31) - 2, 0) is NotImplemented
    assert reput_native.make_items(slots, column([-1, 0, 0], np.int32), *keys[1:], 1, 0) is (
        NotImplemented
    )
    assert reput_native.make_items(np.zeros(0, np.int32), *keys, 1, 0) is NotImplemented
    slots.flags.writeable = False
    assert reput_native.make_items(slots, *keys, 1, 0) is NotImplemented
    assert slots.tolist() == [0] * 4


# --------------------------------------------------------------------------- the border


def test_a_panic_is_an_error_of_ours():
    with pytest.raises(KernelError, match=r"broken.*REPUT_ENGINE=python") as caught:
        reput_native.provoke_panic("broken")

    assert isinstance(caught.value, ReputError)
    assert (caught.value.kernel, caught.value.reason) == ("provoke_panic", "broken")


def test_threads_decode_at_once():
    from reput.record import Decoder, Encoder, Message

    encoder, offset, records = Encoder(), 0, []
    for number in range(2_000):
        records.append(encoder.encode(Message(f"t{number % 9}", b"x" * 99), number, offset, 1))
        offset += len(records[-1])
    window = np.frombuffer(b"".join(records), np.uint8)
    expected = Decoder().decode(window, 0).batch.queue_offset.tolist()
    found = []

    def work():
        decoder = Decoder()
        found.extend(decoder.decode(window, 0).batch.queue_offset.tolist() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 80

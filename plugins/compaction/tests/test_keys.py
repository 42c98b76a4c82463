"""Which records have a successor: by a hash of their keys, in memory or in parts on disk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.files import Disk
from reput.record import TextColumn
from reput_compaction.queue.queueruns import is_blank
from reput_compaction.run.superseded import KeyHash, SupersededRows


def column(keys):
    sizes = np.array([len(key) for key in keys], np.int64)
    window = np.frombuffer(b"#".join([b"", *keys, b"tail"]), np.uint8)
    return TextColumn(window, np.cumsum(sizes + 1) - sizes, sizes)


def superseded(keys, directory, memory=1 << 20, cut=3):
    rows = SupersededRows(len(keys), memory, Disk(), f"{directory}/keys-")
    key_hash = KeyHash()
    for first in range(0, len(keys), cut):
        rows.add(*key_hash(column(keys[first : first + cut])))
    for part in range(rows.part_count):
        rows.finish(part)
    return rows.superseded.tolist()


def expected(keys):
    last = {key: number for number, key in enumerate(keys)}
    return [last[key] != number for number, key in enumerate(keys)]


# Of like and unlike sizes, equal but for an end, a zero byte, or an order of words.
KEYS = st.lists(
    st.sampled_from([b"a", b"a\0", b"a\0\0", b"ab", b"ba", b"abcd", b"abcde", b"a b", b"b a"])
    | st.binary(min_size=1, max_size=40),
    max_size=40,
)


@given(KEYS)
def test_all_but_the_last_record_of_a_key_are_superseded(tmp_path_factory, keys):
    directory = tmp_path_factory.getbasetemp()

    assert superseded(keys, directory) == expected(keys)


@given(KEYS, st.integers(1, 2000))
def test_it_is_the_same_with_little_memory(tmp_path_factory, keys, memory):
    directory = tmp_path_factory.getbasetemp()

    assert superseded(keys, directory, memory) == expected(keys)
    assert list(directory.glob("keys-*")) == []


def test_many_keys_in_many_parts(tmp_path):
    source = np.random.default_rng(3)
    keys = [b"key-%d" % number for number in source.integers(0, 5_000, 20_000).tolist()]

    assert superseded(keys, tmp_path, memory=100_000, cut=997) == expected(keys)


def test_equal_halves_of_a_hash_are_no_equal_keys(tmp_path):
    rows = SupersededRows(5, 1 << 20, Disk(), f"{tmp_path}/keys-")
    high, low = np.array([7, 7, 7, 7, 8], np.uint64), np.array([1, 2, 1, 3, 1], np.uint64)

    rows.add(high, low)
    rows.finish(0)

    assert rows.superseded.tolist() == [True, False, False, False, False]


def test_the_hash_of_a_key_has_nothing_of_what_stands_behind_it():
    key_hash = KeyHash()
    window = np.frombuffer(b"key-1XYZ..key-1ABCDEFGHIJ", np.uint8)
    keys = TextColumn(window, np.array([0, 10]), np.array([5, 5]))

    high, low = key_hash(keys)

    assert high[0] == high[1]
    assert low[0] == low[1]


def test_two_runs_do_not_hash_alike():
    keys = column([b"the same key"])

    assert KeyHash()(keys)[0][0] != KeyHash()(keys)[0][0]


@pytest.mark.parametrize("text", ["", " ", "\t \n", "\u2003", "\x1c"])
def test_white_space_is_no_key(text):
    assert is_blank(text)


@pytest.mark.parametrize("text", ["k", " k", "\xa0", "\u202f", "\u2007", "\u200b"])
def test_other_texts_are_keys(text):
    assert not is_blank(text)

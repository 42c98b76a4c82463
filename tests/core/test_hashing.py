from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaindecoder import text_of

from reput.record.text.javatext import java_string_hash, java_string_hash_column

CODES = {
    "": 0,
    "a": 97,
    "TagA": 2598919,
    "TagA||TagB": 1789476431,
    "tag-中文": -880646131,
    "\U0001f600": 1772899,
    "polygenelubricants": -2147483648,
}


def _column(texts, seeds=None):
    data = [text.encode() for text in texts]
    sizes = np.array([len(text) for text in data], np.int64)
    window = np.frombuffer(b"".join(data), np.uint8)
    return java_string_hash_column(window, np.cumsum(sizes) - sizes, sizes, seeds)


@pytest.mark.parametrize(("text", "code"), CODES.items())
def test_the_hash_is_javas(text, code):
    assert java_string_hash(text) == code


@given(st.lists(st.text(max_size=40), min_size=1, max_size=20))
def test_any_column_hashes_like_its_rows(texts):
    assert _column(texts).tolist() == [java_string_hash(text) for text in texts]


@given(st.text(max_size=10), st.lists(st.text(max_size=40), min_size=1, max_size=20))
def test_a_seed_is_the_hash_of_a_text_in_front(prefix, texts):
    seeds = np.full(len(texts), java_string_hash(prefix), np.int32)

    assert _column(texts, seeds).tolist() == [java_string_hash(prefix + text) for text in texts]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=10))
def test_bytes_that_are_no_utf_8_hash_as_java_decodes_them(rows):
    sizes = np.array([len(row) for row in rows], np.int64)
    window = np.frombuffer(b"".join(rows), np.uint8)

    hashes = java_string_hash_column(window, np.cumsum(sizes) - sizes, sizes)

    assert hashes.tolist() == [java_string_hash(text_of(row)) for row in rows]


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("size", range(1, 34))
def test_rows_of_one_size_hash_like_each_alone(size, seeded):
    texts = [f"{number:x}"[-1] * (size - 1) + chr(65 + number) for number in range(20)]
    prefix = "before" if seeded else ""
    seeds = np.full(len(texts), java_string_hash(prefix), np.int32) if seeded else None

    assert _column(texts, seeds).tolist() == [java_string_hash(prefix + text) for text in texts]

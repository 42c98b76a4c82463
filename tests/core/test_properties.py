from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reput.record.text.properties import PropertyColumns, encode_properties, parse_properties

_PIECES = [b"a", b"TAGS", b"KEYS", b"ab", b"UNIQ_KEY", b"\x01", b"\x02", b"x" * 20, "é".encode()]
texts = st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join)


def _columns(rows):
    sizes = np.array([len(row) for row in rows], np.int64)
    # One byte between the texts: what stands behind a row must not be taken for part of it.
    window = np.frombuffer(b"\x02".join(rows) + b"\x01", np.uint8)
    return PropertyColumns(window, np.cumsum(sizes + 1) - sizes - 1, sizes)


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a|;c|d", {"c": "d"}),
        ("|x;y|z;", {"y": "z"}),
        ("a|b|c;", {"a": "b\x01c"}),
        ("ab;a|b", {"a": "b"}),
        ("a|b;a|c;", {"a": "c"}),
        ("", {}),
    ],
)
def test_a_text_parses_as_rocketmq_5_parses_it(text, properties):
    raw = text.replace("|", "\x01").replace(";", "\x02").encode()

    assert parse_properties(raw) == properties
    for name in ("a", "b", "c", "y", "x"):
        assert _columns([raw]).find(name)[0] == properties.get(name)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", min_codepoint=3), min_size=1),
        st.text(st.characters(codec="utf-8", min_codepoint=3), min_size=1),
    )
)
def test_parsing_is_the_inverse_of_encoding(properties):
    assert parse_properties(encode_properties(properties).encode()) == properties


@given(st.lists(texts, min_size=1, max_size=8))
@example([b"a\x01" + b"v" * size + b"\x02TAGS\x01x\x02" for size in (1, 10, 50, 200, 800, 20_000)])
def test_a_column_finds_what_parsing_each_row_finds(rows):
    columns = _columns(rows)

    for name in ("a", "TAGS", "KEYS", "ab", "UNIQ_KEY", "x"):
        expected = [parse_properties(row).get(name) for row in rows]
        assert columns.find(name).tolist() == expected, name

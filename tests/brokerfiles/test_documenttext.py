"""`decode`, `encode`: files as RocketMQ's brokers write them come out as they went in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_client.remoting import BodyError, parse_body
from reput_tools.brokerfiles import BareKey, decode, encode

FILE = """{
\t"of":{
\t\t"a \\"{1:2}\\" b":{0:12,-1:10
\t\t},
\t\t"none":{}
\t},
\t"l":["{7:8}",1]
}"""
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
KEYS = st.dictionaries(TEXTS, st.integers()) | st.dictionaries(
    st.integers().map(BareKey), st.integers()
)


def test_a_file_that_is_read_and_written_has_the_same_bytes():
    assert encode(decode(FILE.encode())) == FILE.encode()


def test_keys_without_quotes_are_found_as_if_they_had_some():
    found = decode(b'{ 5 :6, "7":{-8\n:9},"note":"{1:2}, 3:4"}')

    assert found == {"5": 6, "7": {"-8": 9}, "note": "{1:2}, 3:4"}


@given(st.recursive(st.none() | st.integers() | TEXTS, lambda inner: KEYS | st.lists(inner)))
def test_what_is_written_is_read_back(document):
    assert decode(encode(document)) == document


@given(st.recursive(st.integers() | TEXTS, lambda inner: st.dictionaries(TEXTS, inner)))
def test_without_bare_keys_it_is_the_json_that_everyone_writes(document):
    text = json.dumps(document, indent="\t", ensure_ascii=False, separators=(",", ":"))

    assert encode(document) == text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 200_000,
        b"{1:}",
        b"{}{}",
        b"{} x",
        b'{"a":Infinity}',
        b"[-Infinity]",
        b'{"a":1e400,"offsetTable":{}}',
    ],
)
def test_what_is_no_document_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"."):
        decode(data)


def test_not_a_number_is_null_as_for_a_broker():
    assert decode(b'{"a":NaN,"b":1}') == {"a": None, "b": 1}


@pytest.mark.parametrize("key", ["\0", "\0x", "\0\0", "\0-", "\0--5", "\0\u0663", "\0005", "\0-5"])
def test_a_key_that_begins_with_a_zero_character_stays_a_text(key):
    data = encode({"a": {key: 1}})

    found = decode(data)

    assert found == {"a": {key: 1}}
    assert encode(found) == data


@pytest.mark.parametrize("number", ["1e400", "-1e400", "Infinity", "-Infinity", "1e400D"])
def test_a_body_has_no_number_that_a_document_cannot_have(number):
    with pytest.raises(BodyError, match=r"body"):
        parse_body(f'{{"a":{number}}}'.encode(), "a body")

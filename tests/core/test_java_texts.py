"""Bytes that are no UTF-8 become the text that Java makes of them, wherever text is read.

Java's answers are recorded; `tests/interop/test_java_texts.py` asks it again where it is at hand.
"""

from __future__ import annotations

import numpy as np
import plaindecoder
import pytest
from javatexts import blocks, checksum, recorded

import reput
from reput.record.text.javatext import java_string_hash, java_string_hash_column, java_text
from reput.record.text.properties import TextColumn, parse_properties

pytestmark = pytest.mark.shows("java-texts")


SURROGATES = {
    b"\xed\xa0": "\ufffd",
    b"\xed\xa0\x80": "\ufffd",
    b"\xed\xbf\xbf\xed\xa0\x80": "\ufffd\ufffd",
    b"a\xed\xa0b": "a\ufffdb",
    b"\xed\xa0\xff": "\ufffd\ufffd",
}


def _columns(rows):
    sizes = np.array([len(row) for row in rows], np.int64)
    window = np.frombuffer(b"".join(rows) + bytes(64), np.uint8)
    return window, np.cumsum(sizes) - sizes, sizes


@pytest.mark.parametrize(("name", "rows"), [pytest.param(*each, id=each[0]) for each in blocks()])
def test_text_is_what_java_decodes(name, rows):
    texts = [java_text(row) for row in rows]

    assert checksum(texts) == recorded()[name]
    assert texts == [plaindecoder.text_of(row) for row in rows]


@pytest.mark.parametrize(("data", "text"), SURROGATES.items())
def test_an_encoded_surrogate_is_one_replacement_in_every_way_to_a_text(tmp_path, data, text):
    properties = b"TAGS\x01" + data + b"\x02KEYS\x01" + data + b"\x02name\x01" + data + b"\x02"

    with reput.open(tmp_path, plugins=[], threads=False) as store:
        receipt = store.put(reput.Message("t", b"", properties=properties))
        view = store.get(receipt.physical_offset)
        (batch,) = store.scan()
        codes = batch.tags_code.tolist()
        column = batch.text("name").tolist()

    assert java_text(data) == text
    assert view.properties == parse_properties(properties)
    assert view.properties == {"TAGS": text, "KEYS": text, "name": text}
    assert codes == [view.tags_code] == [java_string_hash(text)]
    assert column == [text]
    assert TextColumn(*_columns([data])).tolist() == [text]


@pytest.mark.costly
def test_columns_hash_what_java_decodes_behind_any_seed():
    rows = [row for name, block in blocks() if name != "2 bytes" for row in block[::23]]
    seed = java_string_hash("topic#")

    hashes = java_string_hash_column(*_columns(rows))
    seeded = java_string_hash_column(*_columns(rows), np.full(len(rows), seed, np.int32))

    assert hashes.tolist() == [java_string_hash(java_text(row)) for row in rows]
    assert seeded.tolist() == [java_string_hash("topic#" + java_text(row)) for row in rows]

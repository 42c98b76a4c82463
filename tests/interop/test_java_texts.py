"""Byte strings that are no UTF-8, decoded by Java itself: one text, and the recorded checksums."""

from __future__ import annotations

import itertools
import shutil

import pytest
from javatexts import blocks, checksum, java_texts, recorded

from reput.record import java_text

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java"),
    pytest.mark.shows("java-texts"),
]


def test_java_decodes_every_byte_string_to_the_same_text():
    named = list(blocks())
    rows = [row for _, block in named for row in block]

    texts = java_texts(rows)

    different = [
        (row, text) for row, text in zip(rows, texts, strict=True) if java_text(row) != text
    ]
    assert different == []


def test_what_is_recorded_is_what_java_says():
    named = list(blocks())
    texts = iter(java_texts([row for _, block in named for row in block]))

    checksums = {name: checksum(list(itertools.islice(texts, len(rows)))) for name, rows in named}

    assert checksums == recorded()

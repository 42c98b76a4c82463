"""The pages about the index say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_bytes_of_the_page_are_those_of_the_format():
    """The same dump as in test_layout.py, where our writer makes it."""
    page = text_of("docs/anatomy-of-an-index-file.md")
    test = text_of("plugins/index/tests/test_layout.py")

    dump = re.search(r"^header  .*?^item 5[^\n]*", page, flags=re.M | re.S)

    assert dump is not None
    words = re.findall(r"\b[0-9a-f]{8,40}\b", dump[0])
    known = re.findall(r"\b[0-9a-f]{8,40}\b", test.split("FIVE_PUTS = ")[1].split(").ljust")[0])
    assert words == known


def test_rulers_stand_in_the_module_that_they_name():
    page = text_of("docs/anatomy-of-an-index-file.md")

    rulers = re.findall(r"<!-- (\S+\.py) -->\n```text\n(.*?)```", page, flags=re.S)

    assert len(rulers) == 2
    assert all(text in text_of(source) for source, text in rulers)

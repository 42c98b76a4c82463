"""The pages say what is so: snippets run, the table of options is the class."""

from __future__ import annotations

from pathlib import Path

from reput_transaction import layout as names
from reput_transaction.layout import HEADER_DTYPE, OP_DTYPE, ROW_DTYPE

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "transactions.md").read_text("utf-8")


def test_topics_properties_and_sizes_of_the_pages_are_those_of_the_layout():
    for name in (names.HALF_TOPIC, names.OP_TOPIC, names.GIVEN_UP_TOPIC, names.PROPERTY_MEMBER_OF):
        assert f"`{name}`" in PAGE
    assert (HEADER_DTYPE.itemsize, ROW_DTYPE.itemsize, OP_DTYPE.itemsize) == (44, 64, 16)
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")
    section = page.split("## `transaction/<offset>`\n")[1].split("\n## ")[0]
    assert "A row (64 bytes)" in section
    assert "An op row (16 bytes)" in section

"""The pages say what is so: snippets run, the table of options is the class."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from reput_transaction import layout as names
from reput_transaction.layout import HEADER_DTYPE, OP_DTYPE, ROW_DTYPE

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "transactions.md").read_text("utf-8")


def test_the_snippets_run_from_top_to_bottom_and_print_what_they_say(tmp_path, monkeypatch):
    pytest.importorskip("reput_index")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    code = code.replace('plugins=["consumequeue"', 'config={"commitlog": {"file_size": 65536}}, '
                        'plugins=["consumequeue"')  # fmt: skip
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(code, "transactions.md", "exec"), {})

    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, flags=re.M)
    assert len(expected) == 6
    assert printed.getvalue().splitlines() == expected


def test_topics_properties_and_sizes_of_the_pages_are_those_of_the_layout():
    for name in (names.HALF_TOPIC, names.OP_TOPIC, names.GIVEN_UP_TOPIC, names.PROPERTY_MEMBER_OF):
        assert f"`{name}`" in PAGE
    assert (HEADER_DTYPE.itemsize, ROW_DTYPE.itemsize, OP_DTYPE.itemsize) == (44, 64, 16)
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")
    section = page.split("## `transaction/<offset>`\n")[1].split("\n## ")[0]
    assert "A row (64 bytes)" in section
    assert "An op row (16 bytes)" in section

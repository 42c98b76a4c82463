"""The page about writing: its tables are complete; its snippets run in `test_recipes`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reput_arrow.logwriter.writeoptions import WRITE_OPTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-writing.md"
TEXT = PAGE.read_text(encoding="utf-8")


def part(title):
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", sorted(set(WRITE_OPTIONS) - {"path"}))
def test_every_option_is_on_the_page(name):
    assert f"| `{name}` |" in part("Options")


def test_the_logger_that_the_page_names_is_the_one_that_speaks():
    from reput_arrow.logwriter.publication import publish, recovery
    from reput_spark.writer import dataframesink, interruptedwrites

    ((puts, copies),) = re.findall(r"logger below `([\w.]+)` \(for copies: `([\w.]+)`\)", TEXT)

    assert all(each.logger.name.startswith(f"{copies}.") for each in (publish, recovery))
    assert all(
        each.logger.name.startswith(f"{puts}.") for each in (dataframesink, interruptedwrites)
    )

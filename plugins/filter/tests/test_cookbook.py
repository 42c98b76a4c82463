"""Every example of the cookbook does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reput_filter

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "filter-cookbook.md").read_text("utf-8")


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(title):
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
    return [[cell.strip() for cell in row] for row in cells[1:] if not set(row[0]) <= set("- ")]


@pytest.mark.parametrize("row", table("What surprises"), ids=lambda row: row[0])
def test_what_surprises_is_so(row):
    condition, properties, selected = row[0].strip("`"), row[1].strip("`"), row[2]
    given = dict(pair.split("=") for pair in properties.split(", ")) if properties else {}

    found = reput_filter.compile(condition, strict=True).matches(given)

    assert found is (selected == "yes")


@pytest.mark.parametrize("row", table("Conditions"), ids=lambda row: row[0])
def test_conditions_of_the_page_compile_strictly(row):
    first = row[1].split("`")[1]

    assert reput_filter.compile(first, strict=True).properties


def test_subscriptions_of_the_page_want_what_it_says():
    subscriptions = [row[0].split("`")[1].replace("\\|", "|") for row in table("Tags")]

    wanted = [
        {tags for tags in ("x", "paid", "shipped") if compiled.matches({"TAGS": tags})}
        for compiled in (reput_filter.compile(text, "TAG") for text in subscriptions)
    ]

    assert wanted == [{"x", "paid", "shipped"}, {"paid"}, {"paid", "shipped"}]

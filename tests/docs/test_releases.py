"""The table of releases names tests that exist and use these releases."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from brokerdirectories import RELEASES, WRITTEN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/compatibility.md").read_text()
FOUND = tomllib.loads((ROOT / "docs/site/releases.toml").read_text())
TESTS, ROWS = FOUND["tests"], FOUND["rows"]
"""Tests by number; the cells of each directory and release."""


def _versions(path: str) -> list[str]:
    (found,) = re.findall(r"^VERSIONS = (.+)$", (ROOT / path).read_text(), re.MULTILINE)
    return re.findall(r"[\d.]+", found)


USES = {
    "golden_store": ["4.8.0"],
    "rocketmq: RocketMQ": _versions("tests/support/realbroker/parts.py"),
    "newest: RocketMQ": ["5.3.3"],
    "java: JavaStore": _versions("tests/interop/java_store.py"),
    "RECORDED[": ["5.5.0"],
    "WRITTEN": [*RELEASES],
}
"""Releases that a test has without naming them, by what is in its module."""
CELL = r"refused|not needed|(refused, )?\d+(, \d+)*"


@pytest.mark.parametrize("number", TESTS)
def test_a_number_names_a_test_that_is_used(number):
    path, _, name = TESTS[number].partition("::")

    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    assert any(number in re.findall(r"\d+", cell) for row in ROWS for cell in row[2:])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2]))
def test_each_test_of_a_row_has_its_release(row):
    numbers = [number for cell in row[2:] for number in re.findall(r"\d+", cell)]

    assert len(row) == len(FOUND["columns"]) == 9
    assert numbers
    assert all(re.fullmatch(CELL, cell) for cell in row[2:])
    for number in numbers:
        text = (ROOT / TESTS[number].partition("::")[0]).read_text()
        known = [each for word, releases in USES.items() if word in text for each in releases]
        assert row[1] in text or row[1] in known, TESTS[number]


@pytest.mark.parametrize("kind", WRITTEN)
def test_each_release_that_writes_a_kind_of_directory_has_a_row(kind):
    name, releases = WRITTEN[kind]

    rows = {row[1]: row[2:] for row in ROWS if row[0] == name}

    assert sorted(each for each in rows if each != "4.9.8") == sorted(releases)


def test_every_row_is_of_a_kind_that_brokers_write():
    assert {row[0] for row in ROWS} == {name for name, _ in WRITTEN.values()}


def test_the_page_has_the_kinds_and_releases_of_the_table():
    section = PAGE.partition("## Which releases the tests cover")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| (.+) \| (\d[\d., ]+) \|$", section, re.MULTILINE)

    assert [(name, each) for name, releases in shown for each in releases.split(", ")] == [
        (row[0], row[1]) for row in ROWS
    ]


def test_the_site_has_each_row_and_each_test(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    table = importlib.import_module("releasetable")

    text = table.releases()

    assert (ROOT / "docs/reference/releases.md").read_text().count(f"\n{table.MARK}\n") == 1
    assert all(f"| {' | '.join(row)} |" in text for row in ROWS)
    assert all(f"\n{number}. `{path}`" in text for number, path in TESTS.items())

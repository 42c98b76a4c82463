"""The list of differences from RocketMQ is that of the tests that compare the answers."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import sameanswers.allowed
import samecalls.allowed
from pages import DOCS, text_of
from sameanswers.allowed import Allowed

PAGE = "docs/reference/differences.md"
PARTS = {
    "<!-- differences from a broker -->": sameanswers.allowed.ALLOWED,
    "<!-- differences from the proxy -->": samecalls.allowed.ALLOWED,
}


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that fills the page, which is not installed."""
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return importlib.import_module("differencelists")


@pytest.mark.parametrize("mark", PARTS)
def test_the_page_lists_the_allowed_differences_and_no_other(lists: ModuleType, mark: str):
    lines = lists.MARKS[mark]().splitlines()

    assert text_of(PAGE).count(f"\n{mark}\n") == 1
    assert [line[2:] for line in lines if line[:2] == "* "] == [rule.what for rule in PARTS[mark]]
    assert all(line.endswith(":") for line in lines if line and line[:2] != "* ")


@pytest.mark.parametrize("rule", [rule for rules in PARTS.values() for rule in rules])
def test_each_rule_covers_parts_by_name_and_not_everything(rule: Allowed):
    assert rule.names != ("*",) or rule.parts != ("*",), rule.what

"""The pages list the same differences from RocketMQ as the tests that compare the answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sameanswers.allowed
import samecalls.allowed
from sameanswers.allowed import Allowed, plain

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "serve.md": ("Differences from RocketMQ", sameanswers.allowed.ALLOWED),
    "clients-5.md": ("Differences from RocketMQ's proxy", samecalls.allowed.ALLOWED),
}


def listed(page: str, heading: str) -> list[str]:
    """The entries of a page's lists under a heading."""
    text = (DOCS / page).read_text("utf-8")
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    entries = re.findall(r"^- (.*?)[;.]$(?=\n- |\n\n|\n?\Z)", section, re.M | re.S)
    return [plain(entry) for entry in entries]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_lists_the_allowed_differences_and_no_other(page: str):
    heading, rules = PAGES[page]

    assert listed(page, heading) == [plain(rule.what) for rule in rules]


@pytest.mark.parametrize("rule", [rule for _, rules in PAGES.values() for rule in rules])
def test_each_rule_covers_parts_by_name_and_not_everything(rule: Allowed):
    assert rule.names != ("*",) or rule.parts != ("*",), rule.what

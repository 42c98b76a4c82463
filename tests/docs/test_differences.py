"""The page's list of what differs from RocketMQ is that of the test which compares the answers."""

from __future__ import annotations

import re
from pathlib import Path

from sameanswers.allowed import ALLOWED, plain

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"


def listed() -> list[str]:
    """The entries of the page's lists under "What differs"."""
    (section,) = re.findall(
        r"^## What differs\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S
    )
    entries = re.findall(r"^- (.*?)[;.]$(?=\n- |\n\n)", section, re.M | re.S)
    return [plain(entry) for entry in entries]


def test_the_page_lists_what_may_differ_and_nothing_else():
    assert listed() == [plain(rule.what) for rule in ALLOWED]


def test_each_rule_covers_parts_by_name_and_not_everything():
    for rule in ALLOWED:
        assert rule.names != ("*",) or rule.parts != ("*",), rule.what

"""The page lists the same differences from RocketMQ as the test that compares the answers."""

from __future__ import annotations

import re
from pathlib import Path

from sameanswers.allowed import ALLOWED, plain

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"


def listed() -> list[str]:
    """The entries of the page's lists under "Differences from RocketMQ"."""
    (section,) = re.findall(
        r"^## Differences from RocketMQ\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S
    )
    entries = re.findall(r"^- (.*?)[;.]$(?=\n- |\n\n)", section, re.M | re.S)
    return [plain(entry) for entry in entries]


def test_the_page_lists_the_allowed_differences_and_no_other():
    assert listed() == [plain(rule.what) for rule in ALLOWED]


def test_each_rule_covers_parts_by_name_and_not_everything():
    for rule in ALLOWED:
        assert rule.names != ("*",) or rule.parts != ("*",), rule.what

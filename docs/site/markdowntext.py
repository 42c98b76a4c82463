"""Markdown of texts that are written for a terminal or as docstrings, and of tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Code in one or two backquotes, or an option such as `--last` or `-n`, which has none in a help.
_CODE = re.compile(
    r"``(?P<double>.+?)``|`(?P<single>[^`]+)`|(?<![\w`-])(?P<option>--[a-z][\w-]*|-[A-Za-z](?!\w))"
)
_MARKS = re.compile(r"([\\<>\[\]|_])")


def code(text: str) -> str:
    """Return a text as code; also right in the cell of a table."""
    return f"`{text}`".replace("|", "\\|")


def inline(text: str) -> str:
    """Return the Markdown of a text: its code and options as code, and no other marks."""
    parts, at = [], 0
    for found in _CODE.finditer(text):
        parts.append(_MARKS.sub(r"\\\1", text[at : found.start()]))
        parts.append(code(found["double"] or found["single"] or found["option"]))
        at = found.end()
    return "".join([*parts, _MARKS.sub(r"\\\1", text[at:])])


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def anchor_of(title: str) -> str:
    """Return the name that a forge gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")

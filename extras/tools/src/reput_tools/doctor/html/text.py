"""Escapes text for HTML, and control characters and marks of direction for people."""

from __future__ import annotations

from html import escape
from typing import Final

from reput_tools.cli.kit import escape_text

NAME_MAX: Final = 200
"""Characters of a name that a page shows."""
SENTENCES_MAX: Final = 4_000
"""Characters of a finding or an advice, which may name many files."""


def html_text(text: str, most: int = NAME_MAX) -> str:
    """Return at most ``most`` characters as content or attribute of an element, safe in HTML."""
    shown = escape_text(text[: most + 1])
    return escape(shown if len(text) <= most else f"{shown[:most]}…", quote=True)


def shortened(text: str, count: int) -> str:
    """Return ``text`` for a label of at most about ``count`` characters, escaped as `html_text`."""
    shown = escape_text(text[: count + 1])
    return escape(shown if len(shown) <= count else f"{shown[: count - 1]}…", quote=True)

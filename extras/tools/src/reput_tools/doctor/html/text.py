"""Escapes text for HTML, and control characters and marks of direction for people."""

from __future__ import annotations

from html import escape
from typing import Final

from reput_tools.cli.kit import escape_text

__all__ = ["html_text", "shortened"]

_TEXT_MAX: Final = 200
"""Characters of a text that a page shows."""


def html_text(text: str) -> str:
    """Return ``text`` as content or attribute of an element, safe in HTML."""
    shown = escape_text(text[: _TEXT_MAX + 1])
    return escape(shown if len(text) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}…", quote=True)


def shortened(text: str, count: int) -> str:
    """Return ``text`` for a label of at most about ``count`` characters, escaped as `html_text`."""
    shown = escape_text(text[: count + 1])
    return escape(shown if len(shown) <= count else f"{shown[: count - 1]}…", quote=True)

"""Texts of the pages in Chinese; a text that is missing here is shown in English."""

from __future__ import annotations

from typing import Final

__all__ = ["CHINESE"]

CHINESE: Final[dict[str, str]] = {}

"""A key index for reput: find messages by their keys."""

from __future__ import annotations

from reput_index.plugin import IndexConfig, IndexPlugin

__all__ = ["IndexConfig", "IndexPlugin"]

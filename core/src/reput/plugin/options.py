"""What the classes of plugins' options are made with: `reput.bounds`, for plugins."""

from __future__ import annotations

from reput.bounds import AGE_MAX_MS, INT32_MAX, number_between, whole_between

__all__ = ["AGE_MAX_MS", "INT32_MAX", "number_between", "whole_between"]

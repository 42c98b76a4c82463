"""Builds the files of plugins again from the log, and compares or replaces those of a store."""

from __future__ import annotations

"""Compacted topics for reput, in RocketMQ's files: the latest message of every key stays."""

from __future__ import annotations

from reput_compaction._compaction import Compacted
from reput_compaction.plugin import CompactionConfig, CompactionPlugin

__all__ = ["Compacted", "CompactionConfig", "CompactionPlugin"]

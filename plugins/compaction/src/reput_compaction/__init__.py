"""Compacted topics for reput, in RocketMQ's files: the latest message of every key is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_compaction.plugin import CompactionConfig as CompactionConfig
    from reput_compaction.plugin import CompactionPlugin as CompactionPlugin
    from reput_compaction.run.compaction import Compacted as Compacted
    from reput_compaction.run.queuesummary import QueueSummary as QueueSummary
else:
    __getattr__, __dir__ = lazy_exports(__name__)

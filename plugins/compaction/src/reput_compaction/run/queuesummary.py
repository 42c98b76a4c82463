"""`QueueSummary`: how much a compacted queue holds, and how far it is compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_compaction.queue.compactedqueue import CompactedQueue
    from reput_compaction.run.checkpoint import Checkpoint


@attrs.frozen(kw_only=True)
class QueueSummary:
    """One compacted queue."""

    topic: str
    queue_id: int
    message_count: int
    """Messages that are kept."""
    size: int
    """Bytes of their records."""
    pair_count: int
    """Pairs of files."""
    min_queue_offset: int
    max_queue_offset: int
    compacted_to: int | None
    """Queue offset after the last message that a run has seen; None if there was no run."""
    compacted_timestamp: int | None
    """When the oldest pair was written: mostly the last run that dropped something, ms."""


def summary_of(queue: CompactedQueue, checkpoint: Checkpoint) -> QueueSummary:
    """Return how much a queue holds."""
    seen = checkpoint.get(queue.topic, queue.queue_id)
    written = None
    if seen >= 0 and queue.pairs:
        written = queue.files.disk.modified_ms(queue.pairs[0].queue.path)
    return QueueSummary(
        topic=queue.topic,
        queue_id=queue.queue_id,
        message_count=queue.count,
        size=queue.size,
        pair_count=len(queue.pairs),
        min_queue_offset=queue.min_offset,
        max_queue_offset=queue.max_offset,
        compacted_to=seen + 1 if seen >= 0 else None,
        compacted_timestamp=written,
    )

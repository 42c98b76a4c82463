"""Topics and their queues, as tables and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reput_tools.cli.kit.output import Column, format_count, name_column, print_table
from reput_tools.cli.kit.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.plugin import QueueInfo


class TopicFacts(NamedTuple):
    """One topic with the sums of its queues."""

    topic: str
    queues: Sequence[QueueInfo]

    @property
    def message_count(self) -> int:
        """Number of messages of all queues, without known losses."""
        return sum(queue.message_count for queue in self.queues)

    @property
    def lost_count(self) -> int:
        """Number of messages between these offsets that the log has lost."""
        spans = (queue.max_queue_offset - queue.min_queue_offset for queue in self.queues)
        return sum(spans) - self.message_count

    @property
    def last_update_timestamp(self) -> int | None:
        """Store time of the newest message, ms; None if no plugin knows it."""
        times = [queue.last_update_timestamp for queue in self.queues]
        return max((time for time in times if time is not None), default=None)


def topics_of(queues: Sequence[QueueInfo]) -> list[TopicFacts]:
    """Group queues by topic; topics and queues keep their order."""
    found: dict[str, list[QueueInfo]] = {}
    for queue in queues:
        found.setdefault(queue.topic, []).append(queue)
    return [TopicFacts(topic, parts) for topic, parts in found.items()]


def topic_document(facts: TopicFacts) -> dict[str, Any]:
    """Return one topic for ``--json``."""
    return {
        "topic": facts.topic,
        "message_count": facts.message_count,
        "last_update_timestamp": facts.last_update_timestamp,
        "queues": [
            {
                "queue_id": queue.queue_id,
                "min_queue_offset": queue.min_queue_offset,
                "max_queue_offset": queue.max_queue_offset,
                "message_count": queue.message_count,
                "last_update_timestamp": queue.last_update_timestamp,
            }
            for queue in facts.queues
        ],
    }


def print_topics(topics: Sequence[TopicFacts], *, show_queues: bool) -> None:
    """Print a table of topics, or of every queue with the columns of ``mqadmin topicStatus``."""
    if not topics:
        click.echo("  none")
        return
    if show_queues:
        _print_queues(topics)
        return
    rows = [
        (
            facts.topic,
            format_count(len(facts.queues)),
            format_count(facts.message_count),
            str(min(queue.min_queue_offset for queue in facts.queues)),
            str(max(queue.max_queue_offset for queue in facts.queues)),
            format_timestamp(facts.last_update_timestamp),
        )
        for facts in topics
    ]
    _print(("QUEUES", "MESSAGES", "MIN OFFSET", "MAX OFFSET"), rows)


def _print_queues(topics: Sequence[TopicFacts]) -> None:
    rows = [
        (
            queue.topic,
            str(queue.queue_id),
            str(queue.min_queue_offset),
            str(queue.max_queue_offset),
            format_count(queue.message_count),
            format_timestamp(queue.last_update_timestamp),
        )
        for facts in topics
        for queue in facts.queues
    ]
    _print(("QID", "MIN OFFSET", "MAX OFFSET", "MESSAGES"), rows)


def _print(numbers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of topics: the name, columns of numbers, and the time of the last update."""
    columns = [name_column("TOPIC")]
    columns += [Column(title, right=True) for title in numbers]
    columns += [Column("LAST UPDATE (UTC)")]
    print_table(columns, rows)

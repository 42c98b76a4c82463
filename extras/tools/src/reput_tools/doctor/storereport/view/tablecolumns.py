"""The tables of a report: which columns each of them has, in a terminal and on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_tools.cli.kit import format_count, format_size
from reput_tools.doctor.storereport.view.columnformat import Age, Field, Moment, Place
from reput_tools.doctor.storereport.view.labels import first_message

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import GroupLag, QueueCount


def _remarks(lag: GroupLag) -> str:
    """Return what is odd about a group's places, in words."""
    counts = (
        (lag.ahead, "read beyond the end"),
        (lag.unknown, "without messages"),
        (lag.uncommitted, "never read"),
    )
    return ", ".join(f"{format_count(count, 'queue')} {text}" for count, text in counts if count)


def _offsets(queue: QueueCount) -> str | None:
    if queue.min_queue_offset is None:
        return None
    return f"{queue.min_queue_offset} to {queue.max_queue_offset}"


def _text(damage: dict[str, Any], name: str) -> str:
    return str(damage[name])


TOPICS: Final = (
    Field("Topic", lambda each: each.topic, cuts=True),
    Field("Kind", lambda each: each.kind, keep=True),
    Field("Queues", lambda each: each.queue_count, right=True),
    Field("Messages", lambda each: each.message_count, right=True),
    Field("Bytes", lambda each: format_size(each.size), right=True),
    Field("Body mean", lambda each: format_size(each.sizes.mean), right=True),
    Field("Half up to", lambda each: format_size(each.sizes.p50), right=True).only_on_page(),
    Field("99 % up to", lambda each: format_size(each.sizes.p99), right=True).only_on_page(),
    Field("Largest", lambda each: format_size(each.sizes.largest), right=True).only_on_page(),
    Field("Sent again", lambda each: each.sent_again, right=True).only_on_page(),
    Field("Oldest", lambda each: Moment(each.first_timestamp), right=True, keep=True),
    Field("Newest", lambda each: Moment(each.last_timestamp), right=True, keep=True),
)
"""Columns of a `TopicCount`; likewise below."""

GROUPS: Final = (
    Field("Group", lambda each: each.group, cuts=True),
    Field("Topic", lambda each: each.topic, cuts=True),
    Field("Queues", lambda each: len(each.queues), right=True),
    Field("To read", lambda each: each.lag, right=True),
    Field("Oldest", lambda each: Age(each.waiting_since_timestamp), right=True, keep=True),
    Field("Remark", _remarks, shrink=True).only_in_terminal(),
    Field("After the end", lambda each: each.ahead, right=True).only_on_page(),
    Field("Without messages", lambda each: each.unknown, right=True).only_on_page(),
    Field("Never read", lambda each: each.uncommitted, right=True).only_on_page(),
)

RETRIES: Final = (
    Field("Group", lambda each: each.group, cuts=True),
    Field("Retries", lambda each: each.retries, right=True),
    Field("Waiting", lambda each: each.retries_waiting, right=True),
    Field("Dead letters", lambda each: each.dead_letters, right=True),
    Field(
        "Oldest dead", lambda each: Moment(each.oldest_dead_letter_timestamp), right=True, keep=True
    ),
    Field(
        "Newest dead", lambda each: Moment(each.newest_dead_letter_timestamp), right=True, keep=True
    ),
)

LEVELS: Final = (
    Field("Level", lambda each: Place(each.level), right=True),
    Field("Waiting", lambda each: each.waiting, right=True),
    Field("Parked", lambda each: each.parked, right=True),
    Field("Delivered to", lambda each: Place(each.delivered_to), right=True).only_on_page(),
    Field("Oldest", lambda each: Age(each.waiting_since_timestamp), right=True, keep=True),
)

OPEN_TRANSACTIONS: Final = (
    Field("Open since", lambda each: Moment(each.store_timestamp), keep=True),
    Field("Topic", lambda each: each.topic, cuts=True),
    Field("Group", lambda each: each.group, cuts=True),
    Field("Key", lambda each: each.key, shrink=True),
    Field("Physical offset", lambda each: Place(each.physical_offset), right=True),
)

QUEUES: Final = (
    Field("Topic", lambda each: each.topic, cuts=True),
    Field("Queue", lambda each: Place(each.queue_id), right=True),
    Field("Messages", lambda each: each.message_count, right=True),
    Field("Bytes", lambda each: format_size(each.size), right=True),
    Field("Queue offsets", _offsets, right=True),
    Field("Oldest", lambda each: Moment(each.first_timestamp), right=True, keep=True),
    Field("Newest", lambda each: Moment(each.last_timestamp), right=True, keep=True),
)

PLUGINS: Final = (
    Field("Plugin", lambda each: each.plugin),
    Field("Version", lambda each: each.installed or "not installed"),
    Field("State", lambda each: each.state),
    Field("Dispatched to", lambda each: Place(each.dispatched_to), right=True),
    Field("Behind by", lambda each: format_size(each.behind) if each.behind else None, right=True),
    Field("Dead letters", lambda each: each.dead_letters, right=True),
)

DAMAGES: Final = (
    Field("File", lambda each: _text(each, "file")),
    Field("Position", lambda each: _text(each, "position"), right=True),
    Field("Size", lambda each: _text(each, "size"), right=True),
    Field("Reason", lambda each: _text(each, "reason")),
    Field("First message", first_message, shrink=True),
    Field("Found", lambda each: _text(each, "detail")).only_on_page(),
)

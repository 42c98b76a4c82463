"""Tables of a report's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput_cli.kit import format_size, format_timestamp
from reput_doctor.pages import Head, table
from reput_doctor.reporting.concerns import format_age
from reput_doctor.reporting.showing.labels import first_message

if TYPE_CHECKING:
    from reput_doctor.reporting.values import StoreReport

__all__ = [
    "damages_table",
    "groups_table",
    "levels_table",
    "moment",
    "plugins_table",
    "queues_table",
    "retries_table",
    "topics_table",
    "transactions_table",
]

_ROWS: Final = 500


def topics_table(report: StoreReport) -> str:
    """Return the topics, those with most bytes first."""
    heads = [
        Head("Topic"),
        Head("Kind", keep=True),
        Head("Queues", True),
        Head("Messages", True),
        Head("Bytes", True),
        Head("Body mean", True),
        Head("Half up to", True),
        Head("99 % up to", True),
        Head("Largest", True),
        Head("Sent again", True),
        Head("Oldest", keep=True),
        Head("Newest", keep=True),
    ]
    cells = [
        (
            each.topic,
            each.kind,
            each.queue_count,
            each.message_count,
            format_size(each.size),
            format_size(each.sizes.mean),
            format_size(each.sizes.p50),
            format_size(each.sizes.p99),
            format_size(each.sizes.largest),
            each.sent_again,
            moment(each.first_timestamp),
            moment(each.last_timestamp),
        )
        for each in report.topics
    ]
    return table(heads, cells, _ROWS)


def groups_table(report: StoreReport) -> str:
    """Return the consumer groups, those with most to read first."""
    heads = [
        Head("Group"),
        Head("Topic"),
        Head("Queues", True),
        Head("To read", True),
        Head("Oldest", keep=True),
        Head("After the end", True),
        Head("Without messages", True),
        Head("Never read", True),
    ]
    cells = [
        (
            each.group,
            each.topic,
            len(each.queues),
            each.lag,
            _age(report, each.waiting_since_timestamp),
            each.ahead,
            each.unknown,
            each.uncommitted,
        )
        for each in report.groups or ()
    ]
    return table(heads, cells, _ROWS)


def retries_table(report: StoreReport) -> str:
    """Return retries and dead letters by group."""
    heads = [
        Head("Group"),
        Head("Retries", True),
        Head("Waiting", True),
        Head("Dead letters", True),
        Head("Oldest dead letter", keep=True),
        Head("Newest dead letter", keep=True),
    ]
    cells = [
        (
            each.group,
            each.retries,
            each.retries_waiting,
            each.dead_letters,
            moment(each.oldest_dead_letter_timestamp),
            moment(each.newest_dead_letter_timestamp),
        )
        for each in report.retries
    ]
    return table(heads, cells, _ROWS)


def levels_table(report: StoreReport) -> str:
    """Return the delay levels."""
    heads = [
        Head("Level", True),
        Head("Waiting", True),
        Head("Parked in the log", True),
        Head("Delivered to", True),
        Head("Oldest", keep=True),
    ]
    cells = [
        (
            str(each.level),
            each.waiting,
            each.parked,
            _place(each.delivered_to),
            _age(report, each.waiting_since_timestamp),
        )
        for each in report.delay_levels
    ]
    return table(heads, cells)


def transactions_table(report: StoreReport) -> str:
    """Return the oldest open transactions."""
    heads = [
        Head("Open since", keep=True),
        Head("Topic"),
        Head("Producer group"),
        Head("Key"),
        Head("Physical offset", True),
    ]
    cells = [
        (
            moment(each.store_timestamp),
            each.topic,
            each.group,
            each.key,
            str(each.physical_offset),
        )
        for each in report.transactions.oldest
    ]
    return table(heads, cells)


def queues_table(report: StoreReport) -> str:
    """Return the queues, by topic and queue id."""
    heads = [
        Head("Topic"),
        Head("Queue", True),
        Head("Messages", True),
        Head("Bytes", True),
        Head("Queue offsets", True),
        Head("Oldest", keep=True),
        Head("Newest", keep=True),
    ]
    cells = [
        (
            each.topic,
            str(each.queue_id),
            each.message_count,
            format_size(each.size),
            None
            if each.min_queue_offset is None
            else f"{each.min_queue_offset} to {each.max_queue_offset}",
            moment(each.first_timestamp),
            moment(each.last_timestamp),
        )
        for each in report.queues
    ]
    return table(heads, cells, _ROWS)


def plugins_table(report: StoreReport) -> str:
    """Return the places of plugins."""
    heads = [
        Head("Plugin"),
        Head("Version"),
        Head("State"),
        Head("Dispatched to", True),
        Head("Behind by", True),
        Head("Dead letters", True),
    ]
    cells = [
        (
            each.plugin,
            each.installed or "not installed",
            each.state,
            _place(each.dispatched_to),
            None if each.behind is None else format_size(each.behind),
            each.dead_letters,
        )
        for each in report.plugins
    ]
    return table(heads, cells)


def damages_table(report: StoreReport) -> str:
    """Return the damages of the log, in its order."""
    heads = [
        Head("File"),
        Head("Position", True),
        Head("Size", True),
        Head("Reason"),
        Head("First message"),
        Head("Found"),
    ]
    cells = [
        (
            str(each["file"]),
            str(each["position"]),
            str(each["size"]),
            str(each["reason"]),
            first_message(each),
            str(each["detail"]),
        )
        for each in report.damages
    ]
    return table(heads, cells, _ROWS)


def moment(timestamp: int | None) -> str:
    """Return a time to the minute."""
    text = format_timestamp(timestamp)
    return text[:16] if len(text) == len("2026-01-31 12:00:00.123") else text


def _place(offset: int | None) -> str | None:
    return None if offset is None else str(offset)


def _age(report: StoreReport, timestamp: int | None) -> str | None:
    if timestamp is None:
        return None
    age = (report.made_timestamp - timestamp) / 1000
    return format_age(age) if age >= 0 else moment(timestamp)

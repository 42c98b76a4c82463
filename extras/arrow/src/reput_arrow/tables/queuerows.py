"""Rows of the tables that need no more than queues and small files, store by store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from reput_arrow.logs.arrowdisk import disk_of
from reput_arrow.logs.logplace import LogPlace
from reput_arrow.reader.queuebounds import root_of
from reput_arrow.tables.queuesurvey import Survey
from reput_arrow.tables.tablebatch import batch_of
from reput_tools.offline import Committed, read_consumer_offsets, read_delay_offsets

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = dict[str, Any]
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_LEVELS: Final = 18  # as many as RocketMQ has, unless it is configured otherwise
_WHERE: Final = "store string, broker string"

COLUMNS: Final = {
    "committed": f"{_WHERE}, group string, topic string, queue_id int, committed long",
    "consumer_lag": (
        f"{_WHERE}, group string, topic string, queue_id int, committed long, "
        "min_queue_offset long, max_queue_offset long, lag long, waiting_since timestamp"
    ),
    "queues": (
        f"{_WHERE}, topic string, queue_id int, min_queue_offset long, max_queue_offset long, "
        "message_count long, first_timestamp timestamp, last_timestamp timestamp"
    ),
    "schedule_backlog": (
        f"{_WHERE}, level int, delivered_to long, max_queue_offset long, parked long, "
        "waiting long, waiting_since timestamp"
    ),
}
"""Columns of each table, in SQL; times in rows are ms."""


def _queues(place: LogPlace) -> Iterator[Row]:
    for (topic, queue_id), span in sorted(Survey(place).make().spans.items()):
        yield {
            "topic": topic,
            "queue_id": queue_id,
            "min_queue_offset": span.min_queue_offset,
            "max_queue_offset": span.max_queue_offset,
            "message_count": span.max_queue_offset - span.min_queue_offset,
            "first_timestamp": span.first_timestamp,
            "last_timestamp": span.last_timestamp,
        }


def _committed(place: LogPlace) -> list[Committed]:
    disk, root = disk_of(root_of(place))
    return read_consumer_offsets(root, disk, lambda text: None) or []


def _committed_rows(place: LogPlace) -> Iterator[Row]:
    for each in _committed(place):
        yield {
            "group": each.group,
            "topic": each.topic,
            "queue_id": each.queue_id,
            "committed": each.queue_offset,
        }


def _consumer_lag(place: LogPlace) -> Iterator[Row]:
    committed = _committed(place)
    marks = {(each.topic, each.queue_id, each.queue_offset) for each in committed}
    survey = Survey(place, marks).make()
    for each in committed:
        span = survey.spans.get((each.topic, each.queue_id))
        yield {
            "group": each.group,
            "topic": each.topic,
            "queue_id": each.queue_id,
            "committed": each.queue_offset,
            "min_queue_offset": None if span is None else span.min_queue_offset,
            "max_queue_offset": None if span is None else span.max_queue_offset,
            "lag": None if span is None else max(span.max_queue_offset - each.queue_offset, 0),
            "waiting_since": survey.waiting.get((each.topic, each.queue_id, each.queue_offset)),
        }


def _schedule_backlog(place: LogPlace) -> Iterator[Row]:
    disk, root = disk_of(root_of(place))
    delivered = read_delay_offsets(root, disk, lambda text: None)
    # A level that the file does not name begins at 0; without the file nothing is known.
    places = {} if delivered is None else dict.fromkeys(range(1, _LEVELS + 1), 0) | delivered
    marks = {level: (SCHEDULE_TOPIC, level - 1, offset) for level, offset in places.items()}
    survey = Survey(place, list(marks.values())).make()
    parked = {
        queue + 1: span for (topic, queue), span in survey.spans.items() if topic == SCHEDULE_TOPIC
    }
    for level in sorted({*(delivered or {}), *parked}):
        span, place_of = parked.get(level), places.get(level)
        count = 0 if span is None else span.max_queue_offset - span.min_queue_offset
        end = 0 if span is None else span.max_queue_offset
        yield {
            "level": level,
            "delivered_to": place_of,
            "max_queue_offset": end,
            "parked": count,
            "waiting": None if place_of is None else min(max(end - place_of, 0), count),
            "waiting_since": survey.waiting.get(marks[level]) if level in marks else None,
        }


_ROWS: Final[dict[str, Callable[[LogPlace], Iterator[Row]]]] = {
    "committed": _committed_rows,
    "consumer_lag": _consumer_lag,
    "queues": _queues,
    "schedule_backlog": _schedule_backlog,
}


def store_batch(table: str, place: LogPlace) -> pa.RecordBatch:
    """Return the rows of one store.

    Args:
        table: one of `COLUMNS`.
        place: the store's log.

    Raises:
        CorruptFileError: the log cannot be opened.
    """
    where = {"store": place.store, "broker": place.broker}
    return batch_of([{**where, **row} for row in _ROWS[table](place)], COLUMNS[table])

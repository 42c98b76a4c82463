"""Offsets of a stream, as Spark keeps them in a checkpoint: plain dictionaries.

    {"phy": {path of a log: physical offset after the last record},
     "last": {path of a log: [physical offset, store time, checksum of the body] of that record},
     "from": {path of a log: {topic: {queue id: first queue offset wanted}}}}

Its last record identifies a log: a log that was cut or recreated, and grew past the place, holds
another record there. Offsets of earlier releases have no ``last``, and go on without. Only
streams that began at queue offsets have ``from``: it is decided once, before the first batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from reput_arrow.reader.queuebounds import QueueBounds, QueueOffsets
from reput_spark.errors import SparkReputError
from reput_spark.reader.stream.growinglog import settled_key

if TYPE_CHECKING:
    from reput_arrow.logs.openlog import OpenLog

Places: TypeAlias = dict[str, int]
"""By path of the log: the physical offset after the last record of a batch."""
Last: TypeAlias = tuple[int, int, int]
"""Physical offset, store time (ms) and checksum of the body that a record states."""
_KEY: Final = "phy"
_LAST: Final = "last"
_FROM: Final = "from"
_NEAR: Final = (64 << 10, 8 << 20)
"""Bytes before a place in which its last record is looked for; a record is smaller by far."""


@attrs.frozen
class StreamOffset:
    """How far a stream has come in each log."""

    places: Places = attrs.field(factory=dict)
    last: Mapping[str, Last] = attrs.field(factory=dict)
    """Of those logs of which the last record is known."""
    starts: Mapping[str, QueueOffsets] = attrs.field(factory=dict)
    """Queue offsets at which a stream began, by log, topic and queue id."""

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> StreamOffset:
        """Read an offset that Spark has kept.

        Raises:
            SparkReputError: the offset is none of a log's stream.
        """
        found, last, starts = offset.get(_KEY), offset.get(_LAST, {}), offset.get(_FROM, {})
        if not (
            isinstance(found, Mapping)
            and all(isinstance(key, str) and _is_number(place) for key, place in found.items())
            and isinstance(last, Mapping)
            and all(isinstance(each, list | tuple) and len(each) == 3 for each in last.values())
            and all(type(number) is int for each in last.values() for number in each)
            and isinstance(starts, Mapping)
            and all(_are_offsets(each) for each in starts.values())
        ):
            raise SparkReputError(
                "OPTION",
                f"the checkpoint holds the offset {dict(offset)!r}, which no stream of a log has "
                "written; a query has one source for all of its life, and another needs a "
                "checkpoint of its own",
            )
        places: Places = {}
        for key, place in sorted(found.items()):
            settled = settled_key(key)
            places[settled] = max(place, places.get(settled, 0))
        return cls(
            places,
            {settled_key(key): (a, b, c) for key, (a, b, c) in last.items()},
            {settled_key(key): _queue_offsets(each) for key, each in starts.items()},
        )

    def bounds(self, key: str) -> QueueBounds | None:
        """Return the queue offsets that the stream wants of a log; None for all.

        Of a log that came later, the topics at which the stream began are wanted whole.
        """
        if not self.starts:
            return None
        others: QueueOffsets = {topic: {} for each in self.starts.values() for topic in each}
        return QueueBounds({**others, **self.starts.get(key, {})})

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it; Spark compares offsets by their text."""
        made: dict[str, Any] = {_KEY: dict(sorted(self.places.items()))}
        if self.last:
            made[_LAST] = {key: list(each) for key, each in sorted(self.last.items())}
        if self.starts:
            made[_FROM] = {
                key: {
                    topic: {str(queue): first for queue, first in sorted(queues.items())}
                    for topic, queues in sorted(topics.items())
                }
                for key, topics in sorted(self.starts.items())
            }
        return made


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _are_offsets(topics: Any) -> bool:
    return isinstance(topics, Mapping) and all(
        isinstance(queues, Mapping)
        and all(
            queue.isascii() and queue.isdigit() and _is_number(first)
            for queue, first in queues.items()
        )
        for queues in topics.values()
    )


def _queue_offsets(topics: Any) -> QueueOffsets:
    return {
        topic: {int(queue): first for queue, first in queues.items()}
        for topic, queues in topics.items()
    }


def last_record(log: OpenLog, place: int) -> Last | None:
    """Return the last record before a place of a log; None where none is near."""
    base = log.files.base_of(place - 1) if place else None
    if base is None:
        return None
    log.set_end(place)
    for size in _NEAR:
        start = max(base, place - size)
        found, end = None, -1
        for batch in log.scan(start if start == base else log.next_record(start, place), place):
            end = batch.end_offset
            if len(batch):
                found = (
                    int(batch.physical_offset[-1]),
                    int(batch.store_timestamp[-1]),
                    int(batch.column("body_crc")[-1]),
                )
        # What looks like a record may be a body's work: then the next one is not where it ends.
        if found is not None and (end == place or start == base):
            return found
    return None


def is_same_log(log: OpenLog, last: Last) -> bool:
    """Whether a log holds the record that a stream has read last, or has removed its file."""
    physical_offset, store_timestamp, body_crc = last
    if physical_offset < log.files.min_offset:
        return True
    log.set_end(log.files.capacity_end)
    found = log.read_message(physical_offset)
    return found is not None and (found.store_timestamp, found.body_crc) == (
        store_timestamp,
        body_crc,
    )

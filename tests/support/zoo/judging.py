"""Says whether a repaired store serves everything that was not damaged, with the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from zoo.cases import Sick
from zoo.stores import Healthy

import reput
from reput import MissingMessage


def wrong_in_log(store: reput.Store, origin: Healthy, sick: Sick) -> Iterator[str]:
    """Yield what is wrong in the order of the log."""
    found = {}
    for batch in store.scan():
        for row in range(len(batch)):
            message = batch.message(row)
            found[message.physical_offset] = message.record
    for offset, message in origin.records.items():
        if offset not in sick.harmed and found.get(offset) != message.record:
            yield f"{offset} of {message} is not as it was"


def wrong_in_queues(store: reput.Store, origin: Healthy, sick: Sick) -> Iterator[str]:
    """Yield what is wrong in the queues."""
    for (topic, queue_id), expected in origin.queues().items():
        served = _served(store, topic, queue_id)
        for queue_offset, message in expected.items():
            got = served.get(queue_offset)
            if message.physical_offset not in sick.harmed:
                if got != message.record:
                    yield f"{topic}/{queue_id}@{queue_offset} is {_told(got)}"
            elif got not in (None, message.record) and message.physical_offset not in sick.altered:
                yield f"{topic}/{queue_id}@{queue_offset}, which was damaged, is {_told(got)}"


def _served(store: reput.Store, topic: str, queue_id: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    extent = {(each.topic, each.queue_id): each for each in store.queues()}.get((topic, queue_id))
    if extent is None:
        return found
    position = extent.min_queue_offset
    while position < extent.max_queue_offset:
        result = store.read(topic, queue_id, position, max_count=1_000, max_bytes=1 << 24)
        for message in result.messages:
            if not isinstance(message, MissingMessage):
                found[message.queue_offset] = message.record
        if result.next_queue_offset <= position:
            break
        position = result.next_queue_offset
    return found


def _told(record: bytes | None) -> str:
    return "missing" if record is None else f"other bytes: {record[:100]!r}"

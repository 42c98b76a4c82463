"""Reads the part of the log that may hold messages of a range of times.

A log is in storing order, and store times ascend with it, except after clocks were put back. So the
time of each file's first message says where to begin, and a message later than the last time wanted
ends the reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reput import Store
    from reput.log import LogView
    from reput.record import DispatchBatch

__all__ = ["CLOCK_SLACK_MS", "batches_between", "first_offset_since"]

CLOCK_SLACK_MS: Final = 60_000
"""By how much a clock may have been put back without a message being missed."""


def first_offset_since(log: LogView, begin: int) -> int:
    """Return the start of the newest log file before which nothing was stored from ``begin`` on.

    Args:
        log: the store's log.
        begin: store time, ms.
    """
    first, size = log.min_physical_offset, log.file_size
    if begin < CLOCK_SLACK_MS:
        return first
    start = (log.max_physical_offset - 1) // size * size
    # From the newest file back: users mostly ask for recent messages, and files are few.
    while start > first:
        timestamp = log.store_timestamp_at(start)
        if 0 <= timestamp <= begin - CLOCK_SLACK_MS:
            return start
        start -= size
    return first


def batches_between(
    store: Store, start: int, begin: int | None, end: int | None, stop: int | None = None
) -> Iterator[DispatchBatch]:
    """Yield batches from ``start`` on that may hold messages of these times.

    Args:
        store: an open store.
        start: physical offset of a record or of a file.
        begin: earliest store time wanted, ms; None for all.
        end: latest store time wanted, ms; None for all.
        stop: physical offset at which reading ends; the log's end when left out.
    """
    if begin is not None:
        start = max(start, first_offset_since(store.log, begin))
    for batch in store.scan(start, stop):
        yield batch
        if end is not None and len(batch):
            earliest = int(batch.store_timestamp.min())
            if earliest > end + CLOCK_SLACK_MS:
                return

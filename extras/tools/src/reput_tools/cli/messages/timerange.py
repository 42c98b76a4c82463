"""Reads the part of the log that may hold messages of a range of times.

A log is in storing order, and store times ascend with it, except after clocks were put back; see
`reput.log.TimeRuns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput import Store
    from reput.log import TimeRuns
    from reput.record import DispatchBatch


def time_runs(store: Store) -> TimeRuns:
    """Return where the store times of a store's log go back, as far as that is known."""
    from reput.files import Disk  # not for --help
    from reput.log import TimeRuns

    return TimeRuns.of(store.root, Disk().at(store.root))


def batches_between(
    store: Store, start: int, begin: int | None, end: int | None, stop: int | None = None
) -> Iterator[DispatchBatch]:
    """Yield batches from ``start`` on that may hold messages of these times.

    The messages of an inner batch are rows of their own.

    Args:
        store: an open store.
        start: physical offset of a record or of a file.
        begin: earliest store time wanted, ms; None for all.
        end: latest store time wanted, ms; None for all.
        stop: physical offset at which reading ends; the log's end when left out.
    """
    from reput.log import CLOCK_SLACK_MS
    from reput.record import unwrapped_batch

    runs = time_runs(store)
    if begin is not None:
        start = max(start, runs.first_file_since(store.log, begin))
    for batch in store.scan(start, stop):
        yield unwrapped_batch(batch)
        if end is not None and len(batch):
            earliest = int(batch.store_timestamp.min())
            if earliest > end + CLOCK_SLACK_MS and not runs.comes_again(batch.end_offset, end):
                return

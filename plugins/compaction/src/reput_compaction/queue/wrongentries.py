"""Compare all pairs of a queue: records with units, and names of files with what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.errors import CorruptFileError
from reput_compaction.filepairs.pairloader import paired
from reput_compaction.filepairs.pairscan import windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.plugin import StoreContext
    from reput_compaction.queue.compactedqueue import CompactedQueue

__all__ = ["wrong_entries"]


def wrong_entries(context: StoreContext, queue: CompactedQueue) -> Iterator[CorruptFileError]:
    """Yield what is wrong with a queue of a store that nobody writes.

    Args:
        context: of the store, which is open for reading.
        queue: with its pairs.
    """
    last, before = -1, ""
    for pair in queue.pairs:
        if not pair.count:
            continue
        try:
            for window in windows(queue.files, pair):
                window.keys_and_bodies()
        except CorruptFileError as error:
            yield error
        if pair.first <= last:
            reason = f"it begins at queue offset {pair.first}, and {before} ends at {last}"
            yield CorruptFileError(pair.queue.path, 0, reason)
        last, before = pair.last, pair.queue.path
    # A writer that was killed may have made one file of a pair only.
    _, halves = paired(context.disk, queue.places)
    for base in sorted(halves) if context.clean else ():
        reason = "its file of records or its file of units is missing"
        yield CorruptFileError(f"{queue.places.log}/{base:020d}", 0, reason)

"""Compare all pairs of a queue: records, units and notes, and names of files with contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput_compaction.filepairs.offsetnotelayout import NOTE_SIZE, UNKNOWN
from reput_compaction.filepairs.pairloader import bases_in, paired, unit_count
from reput_compaction.filepairs.pairscan import windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.plugin import StoreContext
    from reput_compaction.queue.compactedqueue import CompactedQueue

_SIGNED = b"LOCK"
"""How the file ``lock`` begins while no broker has opened the store after reput."""


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
    if context.clean and _wrote_last(context):
        yield from _wrong_notes(context, queue)


def _wrote_last(context: StoreContext) -> bool:
    """Whether no broker has changed the pairs since their notes were written."""
    try:
        return context.disk.read_file(context.directory("lock"), 4) == _SIGNED
    except OSError:
        return False


def _wrong_notes(context: StoreContext, queue: CompactedQueue) -> Iterator[CorruptFileError]:
    left = bases_in(context.disk, queue.places.notes)
    for pair in queue.pairs:
        if left.pop(pair.base, None) is None:
            yield CorruptFileError(pair.notes.path, 0, "the file of notes is missing")
            continue
        found = unit_count(queue.files, pair)
        if found > pair.count:
            reason = "the note is of a message that ends behind the end of the commit log"
            yield CorruptFileError(pair.notes.path, pair.count * NOTE_SIZE, reason)
        notes = queue.files.read_notes(pair, 0, pair.count)
        units = queue.files.read_units(pair, 0, pair.count)
        wrong = notes["queue_offset"] != units["queue_offset"]
        wrong &= notes["end_offset"] != UNKNOWN
        if wrong.any():
            at = int(np.argmax(wrong))
            reason = f"the note is of queue offset {int(notes['queue_offset'][at])}"
            reason += f", and its unit of {int(units['queue_offset'][at])}"
            yield CorruptFileError(pair.notes.path, at * NOTE_SIZE, reason)
    for base in sorted(left):
        path = f"{queue.places.notes}/{base:020d}"
        yield CorruptFileError(path, 0, "the notes are of records that do not exist")

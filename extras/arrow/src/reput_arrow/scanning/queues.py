"""Messages of one queue, read through its consume queue where the store has one.

A consume queue may end before the log does. Then what it lacks is read from the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError, ReputError
from reput.files import Disk
from reput.log import Split
from reput.record import Corruption, CorruptionKind
from reput_arrow.logs.finding import find_logs
from reput_arrow.logs.place import COMMIT_LOG
from reput_arrow.reading.tasks import Task, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from reput import ReadColumns, Store
    from reput.record import DispatchBatch
    from reput_arrow.logs.place import LogPlace
    from reput_arrow.reading.selection import Selection

__all__ = ["QueuePart", "queue_part"]

_PLUGIN: Final = "consumequeue"
_READ_COUNT: Final = 8_192
_READ_SIZE: Final = 4 << 20


@attrs.define(eq=False)
class QueuePart:
    """The part of a selection that a consume queue answers."""

    selection: Selection
    place: LogPlace
    topic: str
    queue_id: int
    store: Store
    left: Selection | None = None
    """What is still to be read from the log, once `batches` has ended; None for nothing."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the messages; then `left` is known, and the store is closed.

        Raises:
            CorruptFileError: damage, and the selection does not pass over it.
        """
        with self.store:
            # Said before anything is read: what is dispatched meanwhile is read twice otherwise.
            stop = self.store.log.max_physical_offset
            known = next(each for each in self.store.plugins() if each.name == _PLUGIN)
            dispatched_to = min(known.dispatched_to, stop)
            task = Task(self.place, Split(0, 0, dispatched_to), dispatched_to)
            below = attrs.evolve(self.selection, max_offset=_least(self.selection, dispatched_to))
            yield from rows_of(self._read(dispatched_to), task, below, schema)
        if dispatched_to < stop:
            low = max(dispatched_to, self.selection.min_offset or 0)
            self.left = attrs.evolve(self.selection, min_offset=low)

    def _read(self, dispatched_to: int) -> Iterator[DispatchBatch]:
        position = self.selection.min_queue_offset or 0
        stop = self.selection.max_queue_offset
        while stop is None or position < stop:
            count = _READ_COUNT if stop is None else min(_READ_COUNT, stop - position)
            found = self.store.read(
                self.topic, self.queue_id, position, count, _READ_SIZE, as_columns=True
            )
            if found or found.holes:
                yield from self._parts(found)
            if found.next_queue_offset <= position or (
                not found and found.next_queue_offset >= found.max_queue_offset
            ):
                return
            position = found.next_queue_offset

    def _parts(self, found: ReadColumns) -> Iterator[DispatchBatch]:
        """Yield the messages, each run of them with the damage that comes after it."""
        first = 0
        for hole in found.holes:
            if self.selection.corrupt == "fail":
                path, at = self.store.log.path_of(hole.physical_offset)
                raise CorruptFileError(
                    path,
                    at,
                    f"{hole.reason}. corrupt=skip leaves out what is damaged, and corrupt=report "
                    "shows it",
                )
            row = int((found.queue_offsets < (hole.queue_offset or 0)).sum())
            part = found.batch[first:row]
            part.finding = Corruption(
                hole.physical_offset, CorruptionKind.LENGTH_MISMATCH, hole.reason
            )
            yield part
            first = row
        if first < len(found.batch):
            yield found.batch[first:]


def _least(selection: Selection, offset: int) -> int:
    return offset if selection.max_offset is None else min(selection.max_offset, offset)


def queue_part(selection: Selection) -> QueuePart | None:
    """Return what a consume queue can answer of a selection.

    It does where one queue of one topic is wanted, from a queue offset or up to one, of one store
    on this machine whose consume queues can be opened.

    Returns:
        The part, whose store is open until its batches are read; None where all is to be read from
        the log.
    """
    if selection.min_queue_offset is None and selection.max_queue_offset is None:
        return None
    topics, queue_ids = selection.topics or (), selection.queue_ids or ()
    if len(topics) != 1 or len(queue_ids) != 1:
        return None
    places = find_logs(selection.paths)
    if len(places) != 1:
        return None
    (place,) = places
    root, name = os.path.split(place.directory)
    if place.kind != COMMIT_LOG or place.only_base is not None or "://" in root:
        return None
    if name != "commitlog" or not Disk().at(root).exists(os.path.join(root, _PLUGIN)):
        return None
    topic, queue_id = next(iter(topics)), next(iter(queue_ids))
    store = _opened(root, topic)
    if store is None:
        return None
    return QueuePart(selection, place, topic, queue_id, store)


def _opened(root: str, topic: str) -> Store | None:
    """Open a store with its consume queues; None where they are not usable: the log is, perhaps."""
    import reput

    try:
        store = reput.open(root, "r", plugins=(_PLUGIN,))
    except ReputError:
        return None
    try:
        store.read(topic, 0, 0, 1)
    except ReputError:
        store.close()
        return None
    return store

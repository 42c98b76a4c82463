"""Note which queues exist, and find queues that lack units which they once had.

A queue is noted before the store's progress says that its units are on disk; its end is noted when
the plugin is closed. See `reput_consumequeue.queueextents`. So is where store times go back; see
`reput.log.TimeRuns`.
"""

from __future__ import annotations

import logging
import operator
import time
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.files import file_name
from reput.record.layout import PROPERTY_LIGHT_QUEUES
from reput_consumequeue.layout import UNIT, UNIT_DTYPE, valid_count
from reput_consumequeue.queue.queuetable import QueueTable
from reput_consumequeue.queueextents import Noted, QueueExtent, load_extents, save_extents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

logger = logging.getLogger(__name__)

_WARNED_MAX: Final = 5  # queues with a line of their own in the program's log
MANY: Final = 64
"""So many queues are faster taken from their notes; of fewer, reading the files costs less than a
note that waits for the disk."""
_SETTLED_NS: Final = 50_000_000  # the system's times may stand still for a few ms
_COARSE_NS: Final = 2_000_000_000  # some file systems keep whole seconds, or every second one
_PAGE: Final = 204  # units
_LONGEST: Final = 6.0  # seconds for the facts of files; a plugin has ten to close
_NO_FACTS: Final = QueueExtent(0, 0).facts


class QueueLedger:
    """The notes about one store's queues; a read-only store neither reads nor writes them.

    Used by one thread at a time: to open, later to flush, at last to close.
    """

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        # Queues that are built for another store have no past.
        self._is_kept = context.writable and not context.sizes_from
        self._note = load_extents(context.notes) if self._is_kept else Noted()
        self._log_end = self._note.log_end
        self._noted: dict[tuple[str, int], QueueExtent] = {}
        """The noted queues that are not among the closed ones of the `QueueTable`."""
        self._is_changed = self._note.is_damaged  # whether all has to be written, and not added
        self._all_noted = -1  # number of added queues when each of them was noted
        self._same: list[int] = []
        self.times = context.time_runs
        self.progress = 0
        """Physical offset of the first message that is dispatched after the opening."""

    def unchanged(self) -> Callable[[str, str], set[str]]:
        """Return what finds the queues of a topic that nobody has changed since the closing.

        It takes the topic and the path of its directory, and returns the names of queues.
        """
        log, note = self._context.log, self._note
        if not self._context.clean or self._log_end != log.max_physical_offset:
            return lambda topic, path: set()
        rows = note.rows
        counts = note.unchanged(log.min_physical_offset)
        borders = np.flatnonzero(np.diff(rows["topic"], prepend=-1, append=-1)).tolist()
        spans = {note.keys[start][0]: (start, stop) for start, stop in pairwise(borders)}

        def find(topic: str, path: str) -> set[str]:
            start, stop = spans.get(topic, (0, 0))
            here = np.flatnonzero(counts[start:stop]) + start
            ids, positions, *facts = (
                rows[field][here].tolist()
                for field in ("queue_id", "position", "size", "changed_ns", "names_changed_ns")
            )
            files = {position: file_name(position) for position in set(positions)}
            names = list(map(str, ids))
            looked = list(zip(names, map(files.__getitem__, positions), facts[2], strict=True))
            found = self._context.disk.look_below(path, looked) if looked else ()
            same = list(map(operator.eq, found, zip(*facts, strict=True)))
            self._same += compress(here.tolist(), same)
            return set(compress(names, same))

        return find

    def table(self, make: Callable[[str, int], ConsumeQueue]) -> QueueTable:
        """Return the queues that nobody has changed; ``make`` returns a queue without extent."""
        note, same = self._note, np.zeros(len(self._note.rows), np.bool_)
        same[self._same] = True
        self._noted = note.extents(~same)
        keys = [note.keys[row] for row in np.flatnonzero(same).tolist()]
        self._note = Noted(log_end=self._log_end)  # what it has is kept elsewhere
        return QueueTable(make, Noted(keys, note.rows[same], note.log_end))

    def begin(self, queues: QueueTable) -> None:
        """Find the store time of the last message before `progress`, before the first dispatch."""
        newest, end = None, 0
        if self._is_kept:
            ends = queues.closed.rows["end_offset"].copy()
            ends[ends > self.progress] = 0
            if ends.any():
                newest = queues[queues.closed.keys[int(ends.argmax())]]
                end = int(ends.max())
            for _, queue in queues.others():
                if end < queue.max_physical_offset <= self.progress:
                    newest, end = queue, queue.max_physical_offset
        place = None if newest is None else newest.files.read_place(newest.max_offset - 1)
        timestamp = -1 if place is None else self._context.log.store_timestamp_at(place[0])
        self.times.begin(self.progress, timestamp)

    def short(self, queues: QueueTable) -> list[tuple[str, int]]:
        """Find queues that are missing or end too early, although the log has more of them.

        Args:
            queues: with the extents of their files, before anything is cut.

        Returns:
            Topic and queue id of each; the queue may not exist.
        """
        if not self._context.writable:
            return []
        found = []
        for key, floor in self._context.queue_floors.known.items():
            if floor and not queues.has_files(key):
                found.append(key)  # had files since the oldest log files were removed
        lacking = 0
        for key, reach in list(self._noted.items()):
            queue = queues.get(key)
            end = queue.max_offset if queue else 0
            if queue and queue.is_batch:
                end = queue.offset_of(end)  # its units are counted from a place that moves
            if end >= reach.max_offset:
                continue
            if not self._is_in_log(key, reach):
                del self._noted[key]
                self._is_changed = True
                continue
            found.append(key)
            lacking += 1
            if lacking <= _WARNED_MAX:
                logger.warning(
                    "queue lacks units that it had, they are rebuilt topic=%s queue_id=%d "
                    "found=%d had=%d",
                    *(*key, end, reach.max_offset),
                )
        if lacking > _WARNED_MAX:
            logger.warning(
                "more queues lack units, they are rebuilt count=%d", lacking - _WARNED_MAX
            )
        if self._noted.keys() >= dict(queues.others()).keys():
            self._all_noted = queues.added
        return found

    def keep_new(self, queues: QueueTable) -> None:
        """Note the queues that are not noted yet; called when their units are on disk."""
        count = queues.added  # before they are read: more may come meanwhile
        if not self._is_kept:
            return
        if self.times.is_changed:
            self.times.save()
        if count == self._all_noted:
            return
        fresh: dict[tuple[str, int], QueueExtent] = {}
        are_all, must_replace = True, self._is_changed
        for key, queue in queues.others():
            if key not in self._noted:
                self._take(key, queue, None)
                if key in self._noted:
                    fresh[key] = self._noted[key]
                else:
                    are_all = False
        if must_replace:
            self._save(queues.closed)
        elif fresh:
            save_extents(self._context.notes, fresh, self._note, adds=True)
            self._is_changed = False  # before an error, it has everything written again
        if are_all:
            self._all_noted = count

    def keep_all(self, queues: QueueTable) -> None:
        """Note the ends of all queues."""
        if not self._is_kept:
            return
        is_last = len(queues) >= MANY
        changed = queues.others()
        for key, queue in changed:
            self._take(key, queue, self._noted.get(key))
        stays = np.ones(len(queues.closed.rows), np.bool_)
        for row, key, queue in queues.used():
            noted = queues.closed.rows[row]
            if queue.max_offset > noted["max_offset"]:
                extent = QueueExtent(int(noted["max_offset"]), int(noted["record_offset"]))
                self._noted[key] = extent
                stays[row] = False
                self._take(key, queue, extent)
                changed.append((key, queue))
            elif queue.min_physical_offset != noted["min_physical_offset"]:
                noted["min_offset"] = queue.min_offset
                noted["min_physical_offset"] = queue.min_physical_offset
                self._is_changed = True
        if is_last:
            self._note_facts(changed)
        end = self._context.log.max_physical_offset
        if is_last and end != self._log_end:
            self._log_end, self._is_changed = end, True
        keys = list(map(queues.closed.keys.__getitem__, np.flatnonzero(stays).tolist()))
        self._save(Noted(keys, queues.closed.rows[stays]))

    def _save(self, kept: Noted) -> None:
        if self._is_changed:
            kept = Noted(kept.keys, kept.rows, self._log_end)
            save_extents(self._context.notes, self._noted, kept, adds=False)
            self._is_changed = False

    def _take(
        self,
        key: tuple[str, int],
        queue: ConsumeQueue,
        noted: QueueExtent | None,
    ) -> None:
        """Note the end of a queue."""
        end = queue.offset_of(queue.max_offset) if queue.is_batch else queue.max_offset
        # Also a queue that is being rebuilt.
        if noted is not None and noted.max_offset >= end:
            return
        fresh = None if noted is None else QueueExtent(noted.max_offset, noted.record_offset)
        last = queue.max_offset - 1
        if fresh is None or fresh.max_offset < end:
            place = queue.files.read_place(last) if last >= queue.min_offset else None
            fresh = fresh if place is None else QueueExtent(end, place[0])
        if fresh is not None and fresh != noted:
            self._is_changed = True
            self._noted[key] = fresh

    def _note_facts(self, queues: list[tuple[tuple[str, int], ConsumeQueue]]) -> None:
        """Note the facts of the files of queues whose ends are noted."""
        for key, queue, facts in _facts_of(self._context.disk, queues):
            noted = self._noted.get(key)
            if noted is not None and noted.max_offset == queue.max_offset and noted.facts != facts:
                self._is_changed = True
                self._noted[key] = noted._replace(facts=facts)

    def _is_in_log(self, key: tuple[str, int], reach: QueueExtent) -> bool:
        """Return whether the log has the message that was the queue's last when it was noted."""
        message = self._context.log.read_message(reach.record_offset)
        if message is None:
            return False
        if (message.topic, message.queue_id) == key:
            return True
        return key[0] in (message.properties.get(PROPERTY_LIGHT_QUEUES) or "").split(",")


def _facts_of(
    disk: Disk, queues: list[tuple[tuple[str, int], ConsumeQueue]]
) -> Iterator[tuple[tuple[str, int], ConsumeQueue, tuple[int, ...]]]:
    """Yield key, queue and facts of queues with one file; the directory of a topic is opened once.

    What a closing has no time for is read at the next opening.
    """
    topics: dict[str, list[Any]] = {}
    for key, queue in queues:
        files = queue.files
        if len(files.bases) == 1 and not queue.is_batch and queue.extend is None:
            above, _, below = files.directory.rpartition("/")
            name = file_name(files.bases[0] * files.record_size)
            topics.setdefault(above, []).append(((below, name, 1), key, queue))
    deadline = disk.monotonic() + _LONGEST
    for above, group in topics.items():
        bound = disk.at(above)
        try:
            looked = bound.look_below(above, [names for names, _, _ in group])
            for found, (names, key, queue) in zip(looked, group, strict=True):
                if found is not None and _is_settled(*found[1:]):
                    path = f"{above}/{names[0]}/{names[1]}"
                    yield key, queue, _facts(bound, path, queue, found)
                if disk.monotonic() >= deadline:
                    return
        except OSError:  # for example, somebody has removed or replaced the directory
            continue
        finally:
            bound.release()


def _facts(
    disk: Disk, path: str, queue: ConsumeQueue, found: tuple[int, int, int]
) -> tuple[int, ...]:
    """Return the facts of a queue that is on disk; zeros if the file has to be read.

    Somebody else may have changed the file while the store was open: it must have the units that an
    opening looks for. Another change might not show in times that are too new.
    """
    files = queue.files
    base, unit_size = files.bases[0], files.record_size
    count = queue.max_offset - base
    try:
        descriptor = disk.open(path)
        try:
            data = disk.read(descriptor, min(_PAGE, files.per_file) * unit_size, 0)
            last = data[(count - 1) * unit_size : count * unit_size]
            if count > _PAGE:
                last = disk.read(descriptor, unit_size, (count - 1) * unit_size)
        finally:
            disk.close(descriptor)
    except OSError:
        return _NO_FACTS
    page = np.frombuffer(data, UNIT_DTYPE, len(data) // unit_size)
    least = count * unit_size if files.grows else files.file_size
    if count <= 0 or found[0] < least or len(last) < unit_size:
        return _NO_FACTS
    if valid_count(page) != min(count, _PAGE):
        return _NO_FACTS
    place = UNIT.unpack(last)
    if place[0] + place[1] != queue.max_physical_offset:
        return _NO_FACTS
    low, begins = queue.min_offset, queue.min_physical_offset
    if begins < 0 and low == base:
        begins = int(page["physical_offset"][0])  # as an opening finds it
    if count < files.per_file:
        found = *found[:2], 0  # another file comes only after this one has changed
    return queue.max_physical_offset, low, begins, base * unit_size, *found


def _is_settled(*times: int) -> bool:
    is_coarse = any(each % 1_000_000_000 == 0 for each in times)
    return max(times) <= time.time_ns() - (_COARSE_NS if is_coarse else _SETTLED_NS)

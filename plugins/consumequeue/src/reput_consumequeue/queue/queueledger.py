"""Note which queues exist, and find queues that lack units which they once had.

A queue is noted before the store's progress says that its units are on disk; its end is noted when
the plugin is closed. See `reput_consumequeue.queueextents`. So is where store times go back; see
`reput.log.TimeRuns`.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from reput.files import file_name
from reput.log import TimeRuns
from reput.record.layout import PROPERTY_LIGHT_QUEUES
from reput_consumequeue.queueextents import (
    ClosedFile,
    QueueExtent,
    load_extents,
    save_extents,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.plugin import StoreContext
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

    Queues = Mapping[tuple[str, int], ConsumeQueue]

logger = logging.getLogger(__name__)

__all__ = ["QueueLedger"]

_WARNED_MAX: Final = 5  # queues with a line of their own in the program's log
MANY: Final = 64
"""So many queues are faster taken from their notes; of fewer, reading the files costs less than a
note that waits for the disk."""
_SETTLED_NS: Final = 50_000_000  # the system's times may stand still for a few ms


class QueueLedger:
    """The notes about one store's queues; a read-only store neither reads nor writes them.

    Used by one thread at a time: to open, later to flush, at last to close.
    """

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._noted: dict[tuple[str, int], QueueExtent] = {}
        # Queues that are built for another store have no past.
        self._is_kept = context.writable and not context.sizes_from
        if self._is_kept:
            self._noted = load_extents(context.root, context.disk)
        self._is_changed = False
        self._all_noted = -1  # number of queues when each of them was noted
        self.closed: dict[tuple[str, int], ClosedFile] = {}
        """Facts of queues that nobody has changed since the store was closed."""
        if self._is_kept and context.clean:
            self.closed = {key: each.file for key, each in self._noted.items() if each.file}
        self.times = TimeRuns(context.root, context.disk)
        self.progress = 0
        """Physical offset of the first message that is dispatched after the opening."""

    def take_up(self, key: tuple[str, int], queue: ConsumeQueue) -> bool:
        """Set the extent that a queue had when the store was closed; False if it was changed."""
        file = self.closed.get(key)
        if file is None:
            return False
        queue.min_offset, queue.max_offset = file.min_offset, self._noted[key].max_offset
        queue.min_physical_offset = file.min_physical_offset
        queue.max_physical_offset = file.end_offset
        return True

    def begin(self, queues: Queues) -> None:
        """Find the store time of the last message before `progress`, before the first dispatch."""
        newest, end = None, 0
        if self._is_kept:
            for queue in queues.values():
                if end < queue.max_physical_offset <= self.progress:
                    newest, end = queue, queue.max_physical_offset
        place = None if newest is None else newest.files.read_place(newest.max_offset - 1)
        timestamp = -1 if place is None else self._context.log.store_timestamp_at(place[0])
        self.times.begin(self.progress, timestamp)

    def short(self, queues: Queues) -> list[tuple[str, int]]:
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
            if floor and (key not in queues or not queues[key].files.bases):
                found.append(key)  # had files since the oldest log files were removed
        lacking = 0
        for key, reach in list(self._noted.items()):
            end = queues[key].max_offset if key in queues else 0
            if key in queues and queues[key].is_batch:
                end = queues[key].offset_of(end)  # its units are counted from a place that moves
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
        if self._noted.keys() >= queues.keys():
            self._all_noted = len(queues)
        return found

    def keep_new(self, queues: Queues) -> None:
        """Note the queues that are not noted yet; called when their units are on disk."""
        count = len(queues)  # before they are read: more may come meanwhile
        if not self._is_kept:
            return
        if self.times.is_changed:
            self.times.save()
        if count == self._all_noted:
            return
        new = {key: each for key, each in list(queues.items()) if key not in self._noted}
        self._take(new)
        self._save()
        if all(key in self._noted for key in new):
            self._all_noted = count

    def keep_all(self, queues: Queues) -> None:
        """Note the ends of all queues."""
        if self._is_kept:
            self._take(queues, is_last=len(queues) >= MANY)
            self._save()

    def _save(self) -> None:
        if self._is_changed:
            save_extents(self._context.root, self._context.disk, self._noted)
            self._is_changed = False

    def _take(self, queues: Queues, *, is_last: bool = False) -> None:
        """Note the ends of queues, and with ``is_last`` the facts of their files."""
        for key, queue in list(queues.items()):
            noted, end = self._noted.get(key), queue.max_offset
            if queue.is_batch:
                end = queue.offset_of(end)
            # Also a queue that is being rebuilt.
            if noted is not None and noted.max_offset >= end + (is_last and key not in self.closed):
                continue
            record = noted.record_offset if noted is not None and noted.max_offset == end else -1
            last = queue.max_offset - 1
            if record < 0 and last >= queue.min_offset:
                record, _ = queue.files.read_place(last) or (-1, 0)
            if record >= 0:
                fresh = QueueExtent(end, record, _closed_file(queue) if is_last else None)
                self._is_changed = self._is_changed or fresh != noted
                self._noted[key] = fresh

    def _is_in_log(self, key: tuple[str, int], reach: QueueExtent) -> bool:
        """Return whether the log has the message that was the queue's last when it was noted."""
        message = self._context.log.read_message(reach.record_offset)
        if message is None:
            return False
        if (message.topic, message.queue_id) == key:
            return True
        return key[0] in (message.properties.get(PROPERTY_LIGHT_QUEUES) or "").split(",")


def _closed_file(queue: ConsumeQueue) -> ClosedFile | None:
    """Return the facts of a queue that is on disk; None if a change might not show in its times."""
    files = queue.files
    if len(files.bases) != 1 or queue.is_batch or queue.extend is not None:
        return None
    name = file_name(files.bases[0] * files.record_size)
    above, _, below = files.directory.rpartition("/")
    try:
        (found,) = files.shared.disk.look_below(above, [(below, name)])
    except OSError:  # somebody has removed or replaced the directory
        return None
    if found is None or max(found[1:]) > time.time_ns() - _SETTLED_NS:
        return None
    low, end = queue.min_offset, queue.max_physical_offset
    return ClosedFile(end, low, queue.min_physical_offset, int(name), *found)

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
from reput_consumequeue.layout import valid_count
from reput_consumequeue.queueextents import (
    ClosedFile,
    Noted,
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
_COARSE_NS: Final = 2_000_000_000  # some file systems keep whole seconds, or every second one
_PAGE: Final = 204  # units


class QueueLedger:
    """The notes about one store's queues; a read-only store neither reads nor writes them.

    Used by one thread at a time: to open, later to flush, at last to close.
    """

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._noted: dict[tuple[str, int], QueueExtent] = {}
        # Queues that are built for another store have no past.
        self._is_kept = context.writable and not context.sizes_from
        self._log_end = -1
        if self._is_kept:
            self._noted, self._log_end = load_extents(context.root, context.disk)
        self._is_changed = False
        self._all_noted = -1  # number of queues when each of them was noted
        self.closed: dict[tuple[str, int], ClosedFile] = {}
        """Facts of queues that nobody has changed since the store was closed."""
        if self._is_kept and context.clean and self._log_end == context.log.max_physical_offset:
            low = context.log.min_physical_offset
            self.closed = {
                key: each.file
                for key, each in self._noted.items()
                if each.file and not each.file.hides_units(low)
            }
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
            is_last = len(queues) >= MANY
            self._take(queues, is_last=is_last)
            end = self._context.log.max_physical_offset
            if is_last and end != self._log_end:
                self._log_end, self._is_changed = end, True
            self._save()

    def _save(self) -> None:
        if self._is_changed:
            noted = Noted(self._noted, self._log_end)
            save_extents(self._context.root, self._context.disk, noted)
            self._is_changed = False

    def _take(self, queues: Queues, *, is_last: bool = False) -> None:
        """Note the ends of queues, and with ``is_last`` the facts of their files."""
        for key, queue in list(queues.items()):
            noted, end = self._noted.get(key), queue.max_offset
            if queue.is_batch:
                end = queue.offset_of(end)
            looks = is_last and key not in self.closed
            # Also a queue that is being rebuilt.
            if noted is not None and noted.max_offset >= end and not looks:
                continue
            fresh = None if noted is None else noted._replace(file=None)
            last = queue.max_offset - 1
            if fresh is None or fresh.max_offset < end:
                place = queue.files.read_place(last) if last >= queue.min_offset else None
                fresh = fresh if place is None else QueueExtent(end, place[0])
            if fresh is not None and fresh.max_offset == end and is_last:
                fresh = fresh._replace(file=_closed_file(queue))
            if fresh is not None and fresh != noted:
                self._is_changed = True
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
    """Return the facts of a queue that is on disk; None if the file has to be read.

    Somebody else may have changed the file while the store was open: it must have the units that an
    opening looks for. Another change might not show in times that are too new.
    """
    files = queue.files
    if len(files.bases) != 1 or queue.is_batch or queue.extend is not None:
        return None
    (base,), count = files.bases, queue.max_offset - files.bases[0]
    above, _, below = files.directory.rpartition("/")
    name = file_name(base * files.record_size)
    try:
        (found,) = files.shared.disk.look_below(above, [(below, name)])
        if found is None or not _is_settled(*found[1:]):
            return None
        least = count * files.record_size if files.grows else files.file_size
        page = files.read(base, _PAGE)
        place = files.read_place(queue.max_offset - 1)
    except OSError:  # for example, somebody has removed or replaced the directory
        return None
    if found[0] < least or valid_count(page) != min(count, len(page)):
        return None
    if place is None or sum(place) != queue.max_physical_offset:
        return None
    low, begins = queue.min_offset, queue.min_physical_offset
    if begins < 0 and low == base:
        begins = int(page["physical_offset"][0])  # as an opening finds it
    return ClosedFile(queue.max_physical_offset, low, begins, int(name), *found)


def _is_settled(*times: int) -> bool:
    is_coarse = any(each % 1_000_000_000 == 0 for each in times)
    return max(times) <= time.time_ns() - (_COARSE_NS if is_coarse else _SETTLED_NS)

"""`DerivedQueues`: the queues of a directory whose own queues reput cannot read.

The log has everything: a record states its topic, its queue and its queue offset. So the first
question about queues reads the whole log once, and later ones read what came since. Nothing is
written into the store's directory, and nothing is kept after the reader is closed.

Units are derived and not messages: 20 bytes a message, see `UnitSpace`. Records are read from the
log, by the code that reads them through the files of a queue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from reput.files import new_lock
from reput.log import TimeRuns
from reput.record.layout import RECORD_MIN_SIZE
from reput.storefiles import find_broker_files
from reput_consumequeue.derived.derivedqueue import DerivedQueue
from reput_consumequeue.derived.unitspace import UnitSpace
from reput_consumequeue.layout import DIRECTORY
from reput_consumequeue.queue.recovery import correct_min_offset
from reput_consumequeue.unitruns import light_runs, runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.plugin import StoreContext
    from reput.record import DispatchBatch
    from reput_consumequeue.recordfiles import FileSet
    from reput_consumequeue.unitruns import UnitRun

logger = logging.getLogger(__name__)

_OTHER_QUEUES: Final = "rocksdb-queues"
_FOLDERS: Final = (DIRECTORY, "consumequeue_rocksdb")


def has_other_queues(context: StoreContext) -> bool:
    """Whether a broker keeps queues in a directory in files that reput does not read.

    Plain queues beside them do not count: nothing says that they have all messages.
    """
    # A link, or no permission: the store names it, and files may be read.
    found = find_broker_files(context.root, context.disk, _FOLDERS, lambda error: None)
    return any(each.row.kind == _OTHER_QUEUES for each in found)


class DerivedQueues:
    """Queues that are found in the log of a read-only store, when they are asked for. Thread-safe.

    Attributes:
        times: the store times of the log, as far as it was read.
        progress: called while the log is read, with bytes done and bytes in all.
    """

    def __init__(
        self,
        context: StoreContext,
        shared: FileSet,
        accepts: Callable[[str], bool],
        refuse: Callable[[str, int], None],
    ) -> None:
        """Start with nothing read.

        Args:
            context: the store's.
            shared: sizes of the files that the queues would have.
            accepts: whether a name may be that of a queue.
            refuse: called with a name that may not, and the number of its messages.
        """
        self._context, self._shared = context, shared
        self._accepts, self._refuse = accepts, refuse
        self._lock = new_lock()
        self.progress: Callable[[int, int], None] = lambda done, total: None
        self._begin()

    def _begin(self) -> None:
        """Forget everything. A read that is under way keeps the queue that it has."""
        self.queues: dict[tuple[str, int], DerivedQueue] = {}
        self.times = TimeRuns()
        self.times.begin(0, 0)
        self._space = UnitSpace()
        self._end = self._low = 0
        self._newest = -1, b""  # where the last record begins, and its first bytes

    def find(self, topic: str, queue_id: int) -> DerivedQueue | None:
        """Return a queue, or None without one, after what came since the last look was read.

        A queue that was found before may be another one by now: its topic was created again, or the
        log was cut.
        """
        self.follow()
        return self.queues.get((topic, queue_id))

    def follow(self) -> None:
        """Read what the log has got since the last call: all of it at first.

        Raises:
            OSError: the log cannot be read, or the room for units cannot be had.
        """
        with self._lock:
            log = self._context.log
            low, end = log.min_physical_offset, log.max_physical_offset
            if end < self._end or not self._is_same_log(low):
                logger.warning("log was cut, its queues are derived again end=%d", end)
                self._begin()
            if end > self._end:
                self._read(max(self._end, low), end)
            if low > self._low:
                self._low = low
                for queue in self.queues.values():
                    correct_min_offset(queue, low)
                    queue.units.release(queue.min_offset)

    def _is_same_log(self, low: int) -> bool:
        """Whether the last record that was read is still there, or was removed with its file."""
        offset, head = self._newest
        return offset < low or self._context.log.read(offset, len(head)) == head

    def _read(self, start: int, end: int) -> None:
        done = start
        self.progress(0, end - start)
        for batch in self._context.log.scan(start, end):
            self._add(batch)
            done = max(done, batch.end_offset)
            if len(batch):
                offset = int(batch.physical_offset[-1])
                self._newest = offset, self._context.log.read(offset, RECORD_MIN_SIZE)
                self._end = done
            self.progress(done - start, end - start)
        self._end = end
        self.progress(end - start, end - start)

    def _add(self, batch: DispatchBatch) -> None:
        self.times.note(batch)
        for run in runs(batch):
            self._append(run)
        for run in light_runs(batch):
            self._append(run)

    def _append(self, run: UnitRun) -> None:
        topic, queue_id, data, queue_offsets, ends, consecutive = run
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            if queue_id < 0 or not self._accepts(topic):
                self._refuse(topic, len(ends))
                return
            queue = DerivedQueue(topic, queue_id, self._shared, self._space)
            queue.append_run(data, queue_offsets, ends, consecutive=consecutive)
            if queue.max_offset:
                self.queues[topic, queue_id] = queue
            return
        queue.append_run(data, queue_offsets, ends, consecutive=consecutive)

    def all(self) -> list[DerivedQueue]:
        """Return all queues, after what came since the last look was read."""
        self.follow()
        return list(self.queues.values())

    def close(self) -> None:
        """Give up the room for units."""
        self._space.close()

"""The batch queues of a store: which topics have them, their files, and one read of them.

A topic's attribute ``queue.type`` in ``config/topics.json`` decides. It never changes, so a rebuild
from the log finds the kind of queues that the messages were listed in.

Source: RocketMQ 5 ``QueueTypeUtils``, ``ConsumeQueueStore#findOrCreateConsumeQueue``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput.files import OWN_DIRECTORY, FilePool
from reput.plugin import QueueInfo, ReadColumns, ReadResult
from reput.storefiles import batch_topics
from reput_consumequeue.batch.batchqueue import BatchQueue
from reput_consumequeue.batch.batchread import read_batches
from reput_consumequeue.batch.layout import DIRECTORY, UNIT_SIZE, UNITS_PER_FILE
from reput_consumequeue.queuelist import listed
from reput_consumequeue.recordfiles import FileSet

if TYPE_CHECKING:
    from reput.plugin import MessageFilter, StoreContext
    from reput_consumequeue.queue.consumequeue import ConsumeQueue
    from reput_consumequeue.queue.queuetable import QueueTable
    from reput_consumequeue.queuelist import Listed


@attrs.define(eq=False, repr=False)
class BatchQueues:
    """The batch queues of one opening; costs nothing in a store without such topics."""

    context: StoreContext
    pool: FilePool
    every: QueueTable
    """All queues of the plugin; those that are made here are added."""
    topics: frozenset[str]
    """Topics that are known to have batch queues."""
    queues: dict[tuple[str, int], BatchQueue] = attrs.field(factory=dict, init=False)
    _files: FileSet | None = attrs.field(default=None, init=False)
    _stamp: tuple[int, ...] = attrs.field(default=(), init=False)

    @property
    def root(self) -> str:
        """Directory of the store whose topics these are."""
        return self.context.sizes_from or self.context.root

    def knows(self, topic: str) -> bool:
        """Whether a topic has batch queues, also one that was created since the store was opened.

        Looks whether the file has changed: to be asked once for each queue.
        """
        if topic not in self.topics:
            try:
                self._look()
            except OSError:
                if self.context.writable:  # a queue of the wrong kind would keep brokers away
                    raise
        return topic in self.topics

    def _look(self) -> None:
        """Read the table of topics if it has changed."""
        disk, path = self.context.disk, os.path.join(self.root, "config", "topics.json")
        if not disk.exists(path):
            return
        about = disk.status(path)
        stamp = about.st_ino, about.st_size, about.st_mtime_ns
        if stamp != self._stamp:
            found = batch_topics(self.root, disk)
            if found is not None:
                self.topics, self._stamp = self.topics | found, stamp

    def path(self, topic: str, queue_id: int) -> str:
        """Return the directory of a queue."""
        return self.context.directory(DIRECTORY, topic, str(queue_id))

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue; one that is not known yet has no extent."""
        key = topic, queue_id
        if key not in self.every:
            queue = BatchQueue(topic, queue_id, self.path(topic, queue_id), self._shared())
            self.every[key] = self.queues[key] = queue
        return self.every[key]

    def on_disk(self, is_good: Callable[[str], bool]) -> list[Listed]:
        """Return the queues that exist, as `listed` does; take the size of files from them.

        Called at opening if topics with batch queues are known, and by readers at any time.

        Raises:
            CorruptFileError: a file holds no whole units.
        """
        if not self.context.writable:
            with contextlib.suppress(OSError):  # a reader needs no permission for settings
                self._look()
        if not self.topics:
            return []
        directory = self.context.directory(DIRECTORY)
        every = listed(self.context.disk, directory, is_good)
        found = [each for each in every if each[0] in self.topics]
        if self._files is None:
            self._take_size(found)
        return found

    def _take_size(self, found: Iterable[Listed]) -> None:
        for topic, queue_id, files in found:
            for _, size in files:
                if size % UNIT_SIZE:
                    reason = f"a file of {size} bytes holds no whole units"
                    raise CorruptFileError(self.path(topic, queue_id), size, reason)
                if size:
                    self._shared().units_per_file = size // UNIT_SIZE
                    return

    def _shared(self) -> FileSet:
        if self._files is None:
            context = self.context
            self._files = FileSet(
                context.disk,
                self.pool,
                UNITS_PER_FILE,
                writable=context.writable,
                clean=context.clean,
                scratch=context.directory(OWN_DIRECTORY, "batchconsumequeue-file"),
            )
        return self._files

    def flush(self) -> None:
        """Flush the units written so far."""
        if self._files is not None:
            self._files.unflushed.flush()

    @property
    def has_failed(self) -> bool:
        """Whether a flush has failed."""
        return self._files is not None and self._files.unflushed.has_failed

    def extents(self) -> dict[tuple[str, int], int]:
        """Return the queue offset of each queue's next message, if it is not the first one."""
        ends = {key: queue.extent[1] for key, queue in self.queues.items()}
        return {key: end for key, end in ends.items() if end}

    def reader(
        self,
        queue: BatchQueue,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        chosen: MessageFilter | None,
        as_columns: bool,
    ) -> Callable[[], ReadResult | ReadColumns]:
        """Return what answers a read from the known state of the queue."""
        matches = None if chosen is None else chosen.matches
        log = self.context.log
        ask = partial(read_batches, queue, log, queue_offset, max_count, max_bytes, matches)
        return (lambda: ReadColumns.of(ask())) if as_columns else ask


def info_of(queue: BatchQueue) -> QueueInfo:
    """Return a queue with its extent."""
    low, high = queue.extent
    timestamp = None
    if low < high:
        last = queue.files.read(queue.max_offset - 1, 1)
        timestamp = int(last[0]["store_timestamp"]) if len(last) else None
    return QueueInfo(queue.topic, queue.queue_id, low, high, timestamp)

"""The plugin ``consumequeue``: its options, and its hooks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np
from attrs.validators import ge, instance_of

import reput
from reput.disk import FilePool
from reput.encode import check_topic
from reput.errors import CorruptFileError, MessageIllegalError
from reput.layout import (
    LIGHT_QUEUE_PREFIX,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    PROPERTY_LIGHT_QUEUES,
    TRANSACTION_COMMIT,
)
from reput.results import QueueInfo, ReadResult
from reput.status import ReadStatus
from reput_consumequeue._files import FileSet
from reput_consumequeue._queue import ConsumeQueue
from reput_consumequeue._read import read
from reput_consumequeue._recover import correct_min_offset, extend, recover, truncate
from reput_consumequeue._time import offset_by_time
from reput_consumequeue.layout import DIRECTORY, UNIT_DTYPE, UNIT_SIZE, UNITS_PER_FILE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput.context import StoreContext

logger = logging.getLogger(__name__)

__all__ = ["ConsumeQueueConfig", "ConsumeQueuePlugin"]

_KEYS_IN_16_BITS = 1 << 16
_QUEUE_ID_MAX = (1 << 31) - 1


@attrs.frozen(kw_only=True)
class ConsumeQueueConfig:
    """Options of the ``consumequeue`` plugin."""

    units_per_file: int = attrs.field(default=UNITS_PER_FILE, validator=[instance_of(int), ge(2)])
    """Units in one file; 300,000 units are 6 MB. Files that exist keep their size."""
    max_open_files: int = attrs.field(default=256, validator=[instance_of(int), ge(1)])
    """Files kept open; more queues than this work, their files are opened again when needed."""
    multi_dispatch: bool = attrs.field(default=False, validator=instance_of(bool))
    """List messages in the light queues (``%LMQ%…``) that their ``INNER_MULTI_DISPATCH`` names."""


@attrs.define(eq=False)
class ConsumeQueuePlugin(reput.Plugin):
    """Keeps one index of units per (topic, queue id), and reads messages through it."""

    name: ClassVar[str] = "consumequeue"
    default: ClassVar[bool] = True
    config_type: ClassVar[type] = ConsumeQueueConfig

    config: ConsumeQueueConfig = attrs.field(factory=ConsumeQueueConfig)
    context: StoreContext = attrs.field(init=False)
    files: FileSet = attrs.field(init=False)
    queues: dict[tuple[str, int], ConsumeQueue] = attrs.field(init=False, factory=dict)
    refused_topics: dict[str, int] = attrs.field(init=False, factory=dict)
    """Messages that were not listed, by topics that cannot be the name of a directory."""
    _topic_is_good: dict[str, bool] = attrs.field(init=False, factory=dict)

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Find the queues that are on disk."""
        self.context = context
        pool = FilePool(context.disk, self.config.max_open_files, write=context.writable)
        self.files = FileSet(context.disk, pool, self.config.units_per_file, context.writable)
        found = list(self._on_disk())
        size = next((size for *_, size in found if size), None)
        if size is not None:
            # The files of a store that exists say how large files are.
            if size % UNIT_SIZE or size < 2 * UNIT_SIZE:
                topic, queue_id, _ = next(each for each in found if each[2])
                path = context.directory(DIRECTORY, topic, str(queue_id))
                raise CorruptFileError(path, size, f"a file of {size} bytes holds no whole units")
            self.files.units_per_file = size // UNIT_SIZE
        for topic, queue_id, _ in found:
            self._queue(topic, queue_id).files.load()

    def _on_disk(self) -> Iterator[tuple[str, int, int]]:
        """Topic, queue id and size of the first file, of every queue directory."""
        disk = self.context.disk
        for topic in disk.list(self.context.directory(DIRECTORY)):
            if not topic.is_dir() or not self._is_good(topic.name):
                continue
            for queue in disk.list(topic.path):
                name = queue.name
                if not (name.isascii() and name.isdigit() and queue.is_dir()):
                    continue
                if int(name) > _QUEUE_ID_MAX or str(int(name)) != name:
                    continue
                sizes = (file.stat().st_size for file in disk.list(queue.path) if file.is_file())
                yield topic.name, int(name), next(sizes, 0)

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            directory = self.context.directory(DIRECTORY, topic, str(queue_id))
            queue = ConsumeQueue(topic, queue_id, directory, self.files)
            self.queues[topic, queue_id] = queue
        return queue

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        """Find each queue's extent, cut what the log does not have, correct the minimum."""
        for queue in self.queues.values():
            recover(queue, clean=self.context.clean)
            truncate(queue, max_physical_offset)
            correct_min_offset(queue, self.context.log.min_physical_offset)
        return progress if any(queue.files.bases for queue in self.queues.values()) else 0

    @reput.hookimpl
    def reput_queue_offsets(self) -> Mapping[tuple[str, int], int]:
        """Where the next message of each queue goes."""
        return {key: queue.max_offset for key, queue in self.queues.items() if queue.max_offset}

    # ------------------------------------------------------------------ dispatching

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Write the units of ``batch``, one run per queue."""
        transaction = batch.transaction
        if transaction.any():
            counts = (transaction == 0) | (transaction == TRANSACTION_COMMIT)
            rows = np.flatnonzero(counts)
        else:
            rows = None
        queue_id = _taken(batch.queue_id, rows)
        topic_code = _taken(batch.topic_code, rows)
        if len(queue_id) == 0:
            return
        order, keys, key_width = _grouped(topic_code, queue_id, len(batch.topics))
        if rows is not None:
            order = rows[order]
        offset, size = batch.physical_offset[order], batch.size[order]
        units = np.empty(len(order), UNIT_DTYPE)
        units["physical_offset"] = offset
        units["size"] = size
        units["tags_code"] = batch.tags_code[order]
        data = units.view(np.uint8).data
        ends = offset + size
        queue_offset = batch.queue_offset[order]

        borders = np.flatnonzero(keys[1:] != keys[:-1]) + 1
        stops = [*borders.tolist(), len(order)]
        broken = np.flatnonzero(np.diff(queue_offset) != 1) + 1
        # A break between two queues is none; what is left are queues that need a closer look.
        broken_inside = set(np.setdiff1d(broken, borders, assume_unique=True).tolist())
        start = 0
        for stop in stops:
            key = int(keys[start])
            topic, queue_number = batch.topics[key // key_width], key % key_width
            if queue_number <= _QUEUE_ID_MAX and (
                self._topic_is_good.get(topic) or self._is_good(topic)
            ):
                queue = self.queues.get((topic, queue_number)) or self._queue(topic, queue_number)
                consecutive = not broken_inside or not any(
                    start < place < stop for place in broken_inside
                )
                queue.append_run(
                    data[start * UNIT_SIZE : stop * UNIT_SIZE],
                    queue_offset[start:stop],
                    ends[start:stop],
                    consecutive=consecutive,
                )
            else:
                self.refused_topics[topic] = self.refused_topics.get(topic, 0) + stop - start
            start = stop
        if self.config.multi_dispatch:
            self._dispatch_light_queues(batch)

    def _dispatch_light_queues(self, batch: DispatchBatch) -> None:
        """List messages in their light queues; row by row, as few have any.

        Source: RocketMQ ``ConsumeQueue#multiDispatchLmqQueue``: Java's split drops empty parts at
        the end, and lists of unequal length are ignored.
        """
        listed = batch.text(PROPERTY_LIGHT_QUEUES)
        stated = batch.text(PROPERTY_LIGHT_QUEUE_OFFSETS)
        for row in np.flatnonzero(listed.present & stated.present).tolist():
            names = _java_split(listed[row] or "")
            offsets = _java_split(stated[row] or "")
            if len(names) != len(offsets):
                continue
            for name, text in zip(names, offsets, strict=True):
                if not text.isdigit() or not self._is_good(name):
                    continue
                light = name.startswith(LIGHT_QUEUE_PREFIX)
                queue = self._queue(name, 0 if light else int(batch.queue_id[row]))
                unit = np.zeros(1, UNIT_DTYPE)
                unit["physical_offset"] = batch.physical_offset[row]
                unit["size"] = batch.size[row]
                unit["tags_code"] = batch.tags_code[row]
                end = batch.physical_offset[row : row + 1] + batch.size[row : row + 1]
                queue.append_run(
                    unit.view(np.uint8).data,
                    np.array([int(text)]),
                    end,
                    consecutive=True,
                )

    def _is_good(self, topic: str) -> bool:
        """Whether a topic may name a directory; says so once where it may not."""
        good = self._topic_is_good.get(topic)
        if good is None:
            try:
                check_topic(topic)
                good = True
            except MessageIllegalError as error:
                logger.warning(
                    "messages of this topic are not listed topic=%r reason=%s", topic, error
                )
                good = False
            if len(self._topic_is_good) < _KEYS_IN_16_BITS:
                self._topic_is_good[topic] = good
        return good

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Bring the units that were written so far to disk."""
        self.files.flush()

    # ------------------------------------------------------------------ reading

    @reput.hookimpl
    def reput_read(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int
    ) -> ReadResult:
        """See `reput.hookspecs.reput_read`."""
        queue = self._known(topic, queue_id)
        if queue is None:
            # As RocketMQ says it, too: there the question itself makes an empty queue.
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if not self.context.writable and queue_offset + max_count > queue.max_offset:
            self._refresh(queue)
        if queue.min_offset < queue.max_offset:
            self._notice_trimmed_log(queue)
        return read(queue, self.context.log, queue_offset, max_count, max_bytes)

    @reput.hookimpl
    def reput_offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: str
    ) -> int | None:
        """See `reput.hookspecs.reput_offset_by_time`."""
        queue = self._known(topic, queue_id)
        if queue is None:
            return 0
        if not self.context.writable:
            self._refresh(queue)
        return offset_by_time(queue, self.context.log, timestamp, boundary)

    @reput.hookimpl
    def reput_queues(self) -> list[QueueInfo]:
        """Every queue with its extent."""
        if not self.context.writable:
            for topic, queue_id, _ in list(self._on_disk()):
                self._refresh(self._queue(topic, queue_id))
        return [self._info(queue) for queue in list(self.queues.values())]

    def _info(self, queue: ConsumeQueue) -> QueueInfo:
        low, high = queue.min_offset, queue.max_offset
        timestamp = None
        if high > low:
            units = queue.files.read(high - 1, 1)
            if len(units):
                found = self.context.log.store_timestamp_at(int(units["physical_offset"][0]))
                timestamp = found if found >= 0 else None
        return QueueInfo(queue.topic, queue.queue_id, low, high, timestamp)

    def _known(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue of that name, where there is one; looked for on disk in a read-only store."""
        queue = self.queues.get((topic, queue_id))
        if queue is not None:
            return queue
        check_topic(topic)
        if self.context.writable or not 0 <= queue_id <= _QUEUE_ID_MAX:
            return None
        if not self.context.disk.exists(self.context.directory(DIRECTORY, topic, str(queue_id))):
            return None
        queue = self._queue(topic, queue_id)
        self._refresh(queue)
        return queue

    def _refresh(self, queue: ConsumeQueue) -> None:
        """Notice what another process did to the queue."""
        if not queue.files.bases:
            queue.files.load()
        extend(queue, self.context.log.max_physical_offset)

    def _notice_trimmed_log(self, queue: ConsumeQueue) -> None:
        """In a read-only store the log may lose its head while we look."""
        if self.context.writable:
            return
        correct_min_offset(queue, self.context.log.min_physical_offset)

    # ------------------------------------------------------------------ maintaining

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Remove files that point only to what the log has lost, and correct the minimum."""
        for queue in list(self.queues.values()):
            correct_min_offset(queue, min_physical_offset)
            if self.context.writable:
                queue.files.trim(queue.min_offset)

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Queues, files, refused topics."""
        return {
            "queue_count": len(self.queues),
            "file_count": sum(len(queue.files.bases) for queue in list(self.queues.values())),
            "units_per_file": self.files.units_per_file,
            "refused_topics": dict(self.refused_topics),
        }

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close files."""
        if hasattr(self, "files"):
            self.files.pool.close()


def _taken(
    column: npt.NDArray[np.int32], rows: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int32]:
    return column if rows is None else column[rows]


def _grouped(
    topic_code: npt.NDArray[np.int32], queue_id: npt.NDArray[np.int32], topic_count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Order that brings the rows of a queue together; sorted keys; queue ids per topic in a key."""
    width = int(queue_id.max()) + 1
    if 0 < width * topic_count <= _KEYS_IN_16_BITS and int(queue_id.min()) >= 0:
        # Two bytes sort by counting, in a tenth of the time.
        key = (topic_code * width + queue_id).astype(np.uint16)
    else:
        width = 1 << 32  # a negative queue id comes out above any that is allowed
        key = topic_code.astype(np.int64) * width + (queue_id.astype(np.int64) & 0xFFFFFFFF)
    order = np.argsort(key, kind="stable")
    return order, key[order].astype(np.int64), width


def _java_split(text: str) -> list[str]:
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts

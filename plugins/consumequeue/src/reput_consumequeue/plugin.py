"""The plugin ``consumequeue``: its hooks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import attrs

import reput
from reput.errors import CorruptFileError
from reput.files import OWN_DIRECTORY, FilePool
from reput.plugin import QueueInfo, ReadColumns, ReadResult
from reput.status import ReadStatus
from reput.storefiles import batch_topics
from reput_consumequeue.batch.batchqueue import BatchQueue
from reput_consumequeue.batch.batchqueues import BatchQueues, info_of
from reput_consumequeue.batch.batchread import batch_offset_by_time
from reput_consumequeue.batch.layout import DIRECTORY as BATCH_DIRECTORY
from reput_consumequeue.config import ConsumeQueueConfig
from reput_consumequeue.derived.derivedqueues import DerivedQueues, has_other_queues
from reput_consumequeue.extend.extendfiles import ExtendSource
from reput_consumequeue.extend.layout import EXTEND_FILE_SIZE
from reput_consumequeue.layout import DIRECTORY, UNIT_SIZE, UNITS_PER_FILE
from reput_consumequeue.queue.consumequeue import ConsumeQueue
from reput_consumequeue.queue.lostmessages import report_lost_messages
from reput_consumequeue.queue.queueextend import (
    clear_orphans,
    extend_of,
    recover_extend,
    trim_extend,
)
from reput_consumequeue.queue.queueledger import QueueLedger
from reput_consumequeue.queue.queuenames import NAMES_MAX, TopicNames, check_name
from reput_consumequeue.queue.queuetable import QueueTable
from reput_consumequeue.queue.recovery import correct_min_offset, recover, truncate
from reput_consumequeue.queue.unitwrites import UnitWrites
from reput_consumequeue.queuefiles import first_size
from reput_consumequeue.queuelist import QUEUE_ID_MAX, Listed, listed
from reput_consumequeue.reader.mappedread import read_loaded
from reput_consumequeue.reader.queueread import read
from reput_consumequeue.reader.readahead import FilterReadAhead
from reput_consumequeue.reader.tailingreader import TailingReader
from reput_consumequeue.reader.timesearch import offset_by_time
from reput_consumequeue.recordfiles import FileSet
from reput_consumequeue.unitruns import UnitRun, light_runs, runs

if TYPE_CHECKING:
    from reput.files import Disk
    from reput.plugin import MessageFilter, StoreContext
    from reput.record import DispatchBatch
    from reput_consumequeue.offline.shards import QueueBuilder
    from reput_consumequeue.queuefiles import Listed
    from reput_tools.offline import Compared, Comparison, Difference, RecordHints

logger = logging.getLogger(__name__)

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_FILES_OPEN = 256  # of more queues, files are opened again when needed


@attrs.define(eq=False, repr=False)
class ConsumeQueuePlugin(reput.Plugin):
    """Keeps one index of units per (topic, queue id), and reads messages through it."""

    name: ClassVar[str] = "consumequeue"
    config_type: ClassVar[type] = ConsumeQueueConfig
    extend_file_size: ClassVar[int] = EXTEND_FILE_SIZE
    """Bytes of an extend file of a store that has none yet."""

    config: ConsumeQueueConfig = attrs.field(factory=ConsumeQueueConfig)
    context: StoreContext = attrs.field(init=False)
    files: FileSet = attrs.field(init=False)
    queues: QueueTable = attrs.field(init=False)
    refused_topics: dict[str, int] = attrs.field(init=False, factory=dict)
    """Number of messages not listed, by topic; such a topic cannot be the name of a directory."""
    derived: DerivedQueues | None = attrs.field(init=False, default=None)
    """The queues of a read-only store whose own queues this plugin does not read."""
    _batches: BatchQueues = attrs.field(init=False)
    """The batch queues; `queues` has them, too."""
    _names: TopicNames = attrs.field(init=False, factory=TopicNames)
    _follower: TailingReader = attrs.field(init=False)
    """Finds out, in a read-only store, what the writer changed."""
    _noted: QueueLedger = attrs.field(init=False)
    """Remembers for the next opening which queues existed."""
    _writes_extend: bool = attrs.field(init=False, default=False)
    _is_sized: bool = attrs.field(init=False, default=False)
    """Whether existing files have determined the file size."""

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Find the queues that are on disk."""
        self.context = context
        self._writes_extend = self.config.extend and context.writable
        self.refused_topics = {}  # a resumed plugin is opened again
        self.queues = QueueTable(self._new_queue)
        pool = FilePool(context.disk, _FILES_OPEN, write=context.writable)
        self.files = FileSet(
            context.disk,
            pool,
            self.config.units_per_file,
            context.log.losses,
            context.queue_floors.floor,
            writable=context.writable,
            grows=context.grows,
            clean=context.clean,
            scratch=context.directory(OWN_DIRECTORY, "consumequeue-file"),
        )
        self._batches = BatchQueues(context, pool, self.queues, context.batch_topics)
        self._follower = TailingReader(context)
        self._noted = QueueLedger(context)
        if not context.writable and has_other_queues(context):
            self.derived = DerivedQueues(context, self.files, self._names.is_good, self._refuse)
            return
        if self._writes_extend or context.batch_topics:
            found = list(self._on_disk())
        else:
            found = list(self._on_disk(unchanged=self._noted.unchanged()))
        self.queues = self._batches.every = self._noted.table(self._new_queue)
        self._take_size([*found, *self.queues.largest()])
        for topic, queue_id, files in found:
            if topic not in context.batch_topics:
                self._queue(topic, queue_id).files.load(files)
        self.queues.use(self.queues.strange(self.files))
        if context.batch_topics:
            for topic, queue_id, files in self._batches.on_disk(self._names.is_good):
                self._batches.queue(topic, queue_id).files.load(files)

    def _take_size(self, found: Sequence[Listed]) -> None:
        """Set the file size to that of the files found, or of the store they are built for."""
        context = self.context
        root = context.root
        least = self.config.units_per_file * UNIT_SIZE if context.grows else 0
        sized = first_size(found, least)
        self._is_sized = sized is not None
        if sized is None and context.sizes_from:
            root = context.sizes_from
            sized = first_size(self._on_disk(root), least)
        if sized is not None:
            # The files of an existing store determine the size.
            topic, queue_id, size = sized
            if size % UNIT_SIZE or size < 2 * UNIT_SIZE:
                path = f"{root}/{DIRECTORY}/{topic}/{queue_id}"
                raise CorruptFileError(path, size, f"a file of {size} bytes holds no whole units")
            self.files.units_per_file = size // UNIT_SIZE
            if self.config.units_per_file not in (UNITS_PER_FILE, self.files.units_per_file):
                logger.warning(
                    "option not followed, files that exist keep their size option=units_per_file "
                    "asked=%d found=%d",
                    self.config.units_per_file,
                    self.files.units_per_file,
                )

    def _on_disk(
        self, root: str = "", unchanged: Callable[[str, str], set[str]] = lambda topic, path: set()
    ) -> Iterator[Listed]:
        """Yield every plain queue that is not left out."""
        path = f"{root or self.context.root}/{DIRECTORY}"
        return listed(self.context.disk, path, self._names.is_good, unchanged)

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            queue = self.queues[topic, queue_id] = self._new_queue(topic, queue_id)
        return queue  # type: ignore[no-any-return]

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        # The topic's name was checked (`TopicNames`).
        directory = f"{self.context.root}/{DIRECTORY}/{topic}/{queue_id}"
        queue = ConsumeQueue(topic, queue_id, directory, self.files)
        if self._writes_extend:
            extend_of(queue, self.context, self.extend_file_size)
        return queue

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        """Find each queue's extent, cut what the log does not have, correct the minimum.

        Units above ``progress`` are also cut, as their messages are dispatched again: after a crash
        these units may be torn, and if an older log was put back they belong to another log.
        """
        if self.derived is not None:
            return max_physical_offset
        if self._writes_extend:
            clear_orphans(self.queues, self.context, self.files)
        end = max_physical_offset
        if self.context.writable and self.context.recovery != "rocketmq":
            end = min(end, progress)
        for _, queue in self.queues.others():
            recover(queue, clean=self.context.clean, known_offset=end)
        complete_to = self._recover_short(end)
        low = self.context.log.min_physical_offset
        closed = self.queues.closed.rows
        highest = min(end, progress, max_physical_offset)
        self.queues.use((closed["end_offset"] > highest) | (closed["min_physical_offset"] < low))
        # RocketMQ may have removed the messages, and records nowhere what it knew of the queue.
        gone = {
            key: queue.offset_of(queue.max_offset)
            for key, queue in self.queues.made.items()
            if queue.max_offset > 0 and queue.max_physical_offset <= low  # it has none of them
        }
        self.context.queue_floors.keep(
            {**self.queues.ends_at_rest(closed["end_offset"] <= low), **gone}
        )
        has_files = len(self.queues.at_rest()) > 0
        for queue in self.queues.made.values():
            has_files = has_files or len(queue.files.bases) > 0
            doubtful = queue.max_physical_offset > progress or queue.max_physical_offset < 0
            report_lost_messages(queue, self.context, max_physical_offset)
            truncate(queue, end)
            if doubtful and self.context.writable and not self.context.clean:
                # A killed writer may have left units or names unflushed.
                queue.files.note_unflushed()
            correct_min_offset(queue, low)
            is_cut = queue.extend is not None and recover_extend(queue, queue.extend)
            if queue.files.lost_last or is_cut:
                progress = min(progress, max(queue.max_physical_offset, 0))
        if not has_files:
            progress = 0
        if self.context.writable and self.context.recovery == "rocketmq":
            # Units above the progress stay there, so no unit that was cut may come back.
            self.files.unflushed.flush()
        self._noted.progress = min(progress, complete_to)
        return self._noted.progress

    def _recover_short(self, known_offset: int) -> int:
        """Find again the extents of queues that lack units which they once had.

        Returns:
            Physical offset below which no queue lacks units; the log above it is dispatched again.
        """
        complete_to = known_offset
        for key in self._noted.short(self.queues):
            queue = self.queues.get(key)
            if queue is not None:
                # The files were changed, so they are not trusted, even after a proper close.
                recover(queue, clean=False, known_offset=known_offset)
            complete_to = min(complete_to, 0 if queue is None else queue.max_physical_offset)
        return max(complete_to, 0)

    @reput.hookimpl
    def reput_queue_offsets(self) -> Mapping[tuple[str, int], int]:
        """Return the queue offset of each queue's next message."""
        if self.context.writable:
            self._go_on_at_floors()
        used = {
            key: queue.max_offset for key, queue in self.queues.made.items() if queue.max_offset
        }
        ends = {**self.queues.ends_at_rest(), **used}
        return {**ends, **self._batches.extents()} if self._batches.queues else ends

    def _go_on_at_floors(self) -> None:
        """Create the files of queues of which the log has no message any more.

        Without files a queue would begin at 0 again for its readers and for RocketMQ.
        """
        low = self.context.log.min_physical_offset
        closed = self.queues.closed.rows
        self.queues.use(closed["min_offset"] == closed["max_offset"])
        resting = self.queues.ends_at_rest()
        for (topic, queue_id), floor in self.context.queue_floors.known.items():
            if (topic, queue_id) in resting:
                continue
            if not 0 <= queue_id <= QUEUE_ID_MAX or not self._names.is_good(topic):
                continue
            is_batch = self._batches.knows(topic)
            queue = (self._batches.queue if is_batch else self._queue)(topic, queue_id)
            if queue.min_offset == queue.max_offset and queue.offset_of(queue.max_offset) < floor:
                try:
                    queue.go_on_at(floor, low)
                except OSError as error:
                    # The next message creates them; its queue offset is not decided here.
                    logger.warning("queue without files directory=%s error=%s", queue, error)

    # ------------------------------------------------------------------ offline tools

    @reput.hookimpl(optionalhook=True)
    def reput_tools_shards(self, context: StoreContext) -> QueueBuilder | None:
        """Return what builds queues; None with files that grow in the log's order.

        These are extend files, and those of batch queues.
        """
        from reput_consumequeue.offline.shards import QueueBuilder

        batches = batch_topics(context.sizes_from or context.root, context.disk)
        if self.config.extend or context.light_queues or batches != frozenset():
            return None
        self.reput_open(context)
        return QueueBuilder(
            self.files.units_per_file,
            self._names.is_good,
            context.disk,
            context.queue_floors.known,
            context.log.min_physical_offset,
            grows=context.grows,
        )

    @reput.hookimpl(optionalhook=True)
    def reput_tools_compare(
        self, comparison: Comparison, differences: Sequence[Difference]
    ) -> Compared:
        """Compare units, as far as they follow from the log."""
        from reput_consumequeue.offline.compare import weigh

        return weigh(comparison, differences)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_explain(
        self, comparison: Comparison, differences: Sequence[Difference]
    ) -> Sequence[Difference]:
        """Say which units differ, of which messages."""
        from reput_consumequeue.offline.explain import explain

        return [explain(comparison, each) for each in differences]

    @reput.hookimpl(optionalhook=True)
    def reput_tools_hints(self, root: str, disk: Disk) -> Iterator[RecordHints]:
        """Yield what units say: every one names a message and its place in the log."""
        from reput_consumequeue.offline.hints import leads

        return leads(root, disk)

    # ------------------------------------------------------------------ dispatching

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Write the units of ``batch``, one run per queue."""
        times = self._noted.times
        if not times.has_begun:
            self._noted.begin(self.queues)
        times.note(batch)
        source = ExtendSource.of(batch) if self.config.extend else None
        writes = UnitWrites(self.files)
        try:
            for run in runs(batch):
                # Two topics with bytes that are not valid text may have one name, and one queue.
                is_sure = _REPLACEMENT not in run.topic
                self._append(run, writes if is_sure else None, source, batch)
        finally:
            writes.write()  # also if the file of another queue cannot be created
        if self.context.light_queues:
            # After the queues of the messages themselves, as in RocketMQ.
            for run in light_runs(batch):
                self._append(run)

    def _append(
        self,
        run: UnitRun,
        writes: UnitWrites | None = None,
        source: ExtendSource | None = None,
        batch: DispatchBatch | None = None,
    ) -> None:
        topic, queue_id, data, queue_offsets, ends, consecutive = run
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            if queue_id < 0 or not self._names.is_good(topic):
                self._refuse(topic, len(ends))
                return
            is_batch = self._batches.knows(topic)
            queue = (self._batches.queue if is_batch else self._queue)(topic, queue_id)
        if isinstance(queue, BatchQueue):
            if batch is not None:  # a light queue, which has another name, is not listed in it
                queue.append_batches(run, batch)
            return
        if queue.extend is not None:
            queue.extend.source = source
        queue.append_run(data, queue_offsets, ends, consecutive=consecutive, writes=writes)

    def _refuse(self, topic: str, count: int) -> None:
        # A log may hold as many hostile names as messages; not all of them are remembered.
        if topic not in self.refused_topics and len(self.refused_topics) >= NAMES_MAX:
            topic = "(others)"
        self.refused_topics[topic] = self.refused_topics.get(topic, 0) + count

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Flush the units written so far, and note new queues."""
        if self._batches.queues:
            self._batches.flush()
        self.files.unflushed.flush(then=partial(self._noted.keep_new, self.queues))

    # ------------------------------------------------------------------ reading

    @reput.hookimpl
    def reput_read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        filter: MessageFilter | None = None,  # noqa: A002 - the hook's word
        as_columns: bool = False,
    ) -> ReadResult | ReadColumns:
        """See `reput.plugin.hookspecs.reput_read`."""
        queue = self.queues.made.get((topic, queue_id)) or self._known(topic, queue_id)
        if queue is None and (self.context.writable or self.derived is not None):
            # The answer of RocketMQ, where the question itself creates an empty queue.
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if queue is None:
            return self._follower.read_none(queue_offset, lambda: self._known(topic, queue_id))

        is_own = self.context.writable or self.derived is not None
        if filter is None and is_own and not queue.is_batch:
            log = self.context.log
            found = read_loaded(queue, log, queue_offset, max_count, max_bytes, as_columns)
            if found is not None:
                return found
            return read(queue, log, queue_offset, max_count, max_bytes, None, as_columns)
        if isinstance(queue, BatchQueue):
            asked_for = queue_offset, max_count, max_bytes, filter, as_columns
            ask = self._batches.reader(queue, *asked_for)
            if self.context.writable:
                return ask()
            self._refresh(queue)
            return self._follower.read(queue, queue_offset, ask)
        make_scout = None
        if filter is not None:
            make_scout = partial(
                FilterReadAhead, queue, self.context, self.extend_file_size, filter
            )
        asked = self.context.log, queue_offset, max_count, max_bytes, make_scout, as_columns
        if is_own:
            return read(queue, *asked)
        if queue_offset + max_count > queue.max_offset:
            self._refresh(queue)
        if queue.min_offset < queue.max_offset:
            correct_min_offset(queue, self.context.log.min_physical_offset)
        return self._follower.read(queue, queue_offset, partial(read, queue, *asked))

    @reput.hookimpl
    def reput_offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: str
    ) -> int | None:
        """See `reput.plugin.hookspecs.reput_offset_by_time`."""
        queue = self._known(topic, queue_id)
        if queue is None:
            return 0
        if not self.context.writable and self.derived is None:
            self._refresh(queue)
        times = (self._noted if self.derived is None else self.derived).times.known()
        if isinstance(queue, BatchQueue):
            return batch_offset_by_time(queue, timestamp, boundary, is_sorted=len(times) < 2)
        return offset_by_time(queue, self.context.log, timestamp, boundary, times)

    @reput.hookimpl
    def reput_queues(self) -> list[QueueInfo]:
        """Return every queue with its extent."""
        if self.derived is not None:
            return [self._info(queue) for queue in self.derived.all()]
        if not self.context.writable:
            for topic, queue_id, _ in list(self._on_disk()):
                self._refresh(self._followed(topic, queue_id))
            for topic, queue_id, _ in self._batches.on_disk(self._names.is_good):
                self._refresh(self._followed(topic, queue_id, is_batch=True))
        return [self._info(queue) for queue in self.queues.looked_at()]

    def _info(self, queue: ConsumeQueue) -> QueueInfo:
        if isinstance(queue, BatchQueue):
            return info_of(queue)
        low, high = queue.min_offset, queue.max_offset
        timestamp = None
        if high > low:
            place = queue.files.read_place(high - 1)
            if place is not None:
                found = self.context.log.store_timestamp_at(place[0])
                timestamp = found if found >= 0 else None
        return QueueInfo(queue.topic, queue.queue_id, low, high, timestamp)

    def _known(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue of that name, if it exists; a read-only store looks for it on disk."""
        queue: ConsumeQueue | None = self.queues.get((topic, queue_id))
        if queue is not None:
            return queue
        check_name(topic)
        if self.context.writable or not 0 <= queue_id <= QUEUE_ID_MAX:
            return None
        if self.derived is not None:
            return self.derived.find(topic, queue_id)
        is_batch = self._batches.knows(topic)
        directory = BATCH_DIRECTORY if is_batch else DIRECTORY
        if not self.context.disk.exists(self.context.directory(directory, topic, str(queue_id))):
            return None
        queue = self._followed(topic, queue_id, is_batch=is_batch)
        self._refresh(queue)
        return queue

    def _followed(self, topic: str, queue_id: int, *, is_batch: bool = False) -> ConsumeQueue:
        """Return the queue of that name, created if unknown; thread-safe, for a read-only store."""
        with self._follower.lock:
            return (self._batches.queue if is_batch else self._queue)(topic, queue_id)

    def _refresh(self, queue: ConsumeQueue) -> None:
        """Notice what another process did to the queue."""
        if not self._is_sized and not queue.is_batch:
            # There were no files at opening, perhaps because a rebuild was replacing them.
            with self._follower.lock:
                self._take_size(list(self._on_disk()))
        self._follower.refresh(queue)

    # ------------------------------------------------------------------ maintaining

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Remove files that point only to the log's lost head, and correct the minimum."""
        self._noted.times.trim(min_physical_offset)
        self.queues.use(self.queues.closed.rows["min_physical_offset"] < min_physical_offset)
        for queue in list(self.queues.made.values()):
            correct_min_offset(queue, min_physical_offset)
            if self.context.writable:
                queue.files.trim(queue.min_offset)
                if queue.extend is not None:
                    trim_extend(queue, queue.extend)

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return queues, files and refused topics."""
        queues = self.queues if self.derived is None else self.derived.queues
        return {
            "queue_count": len(queues),
            "file_count": len(self.queues.at_rest())
            + sum(len(queue.files.bases) for queue in list(self.queues.made.values())),
            "units_per_file": self.files.units_per_file,
            "refused_topics": dict(self.refused_topics),
        }

    @reput.hookimpl
    def reput_close(self) -> None:
        """Note the ends of all queues, and close files."""
        if hasattr(self, "files"):
            try:
                is_lost = self._batches.queues and self._batches.has_failed
                if not self.files.unflushed.has_failed and not is_lost:
                    self._noted.keep_all(self.queues)
            finally:
                self.files.pool.close()
                if self.derived is not None:
                    self.derived.close()

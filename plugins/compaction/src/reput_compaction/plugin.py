"""The plugin ``compaction``: its options, and its hooks."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import attrs
from attrs.validators import deep_iterable, instance_of

import reput
from reput.errors import (
    MessageIllegalError,
    ReadOnlyStoreError,
)
from reput.files import OWN_DIRECTORY, FilePool
from reput.plugin import AGE_MAX_MS, INT32_MAX, PutInterest, QueueInfo, ReadResult, integer_between
from reput.record import parse_properties
from reput.record.layout import PROPERTY_KEYS
from reput.status import ReadStatus
from reput_compaction.filepairs.filepair import PairFiles
from reput_compaction.filepairs.offsetnotelayout import TOPICS
from reput_compaction.filepairs.pairloader import find_queues, find_sizes, whole_sizes
from reput_compaction.filepairs.queuenames import InStore, Places
from reput_compaction.job.staging import sweep
from reput_compaction.layout import (
    CHECKPOINT,
    DIRECTORY,
    LOG_FILE_SIZE,
    QUEUE_FILE_SIZE,
    file_sizes,
)
from reput_compaction.queue.compactedtopics import compacted_topics
from reput_compaction.queue.queueruns import is_blank, runs
from reput_compaction.run.checkpoint import Checkpoint

if TYPE_CHECKING:
    from reput.errors import CorruptFileError
    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput.record import DispatchBatch, Message
    from reput_compaction.queue.compactedqueue import CompactedQueue
    from reput_compaction.queue.tailingreader import TailingReader
    from reput_compaction.run.compaction import Compacted
    from reput_compaction.run.queuesummary import QueueSummary
    from reput_compaction.worker import CompactionWorker
    from reput_tools.offline import Engine

logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000
_FILES_OPEN = 256
_QUEUE_ID_MAX = (1 << 31) - 1


@attrs.frozen(kw_only=True)
class CompactionConfig:
    """Options of the ``compaction`` plugin.

    Files of a new store have RocketMQ's sizes, 100 MiB for records and 10 MiB for units; existing
    files keep their size.
    """

    topics: Sequence[str] = attrs.field(
        factory=list, validator=deep_iterable(instance_of(str), instance_of((list, tuple)))
    )
    """Topics to compact, in addition to topics whose attribute ``cleanup.policy`` is ``COMPACTION``
    in the store's ``config/topics.json``.

    Name the topics in which only the latest message of each key matters.
    """
    interval_ms: int = attrs.field(default=900_000, validator=integer_between(1, INT32_MAX))
    """Time between two checks for queues to compact.

    Lower it when replaced messages must leave the disk sooner.
    """
    roll_ms: int = attrs.field(default=3_600_000, validator=integer_between(0, AGE_MAX_MS))
    """Close a file, so that it can be compacted, when its first message has this age; 0 waits until
    the file is full.

    Lower it when topics with little traffic should be compacted sooner.
    """
    tombstone_retention_ms: int = attrs.field(
        default=_DAY_MS, validator=integer_between(0, AGE_MAX_MS)
    )
    """How long a message without a body, which deletes its key, is kept after it was stored.
    RocketMQ: 0.

    Raise it when a reader may fall more than a day behind and must still see deletions.
    """
    offset_map_size: int = attrs.field(
        default=104_857_600, validator=integer_between(1 << 16, INT32_MAX)
    )
    """Bytes of memory for the keys of one compaction run (``maxOffsetMapSize``). If a run has more
    keys, it writes the other keys to disk temporarily. A run also needs two bytes of memory for
    each message.

    Lower it when memory is short, and raise it when runs over many keys take too long.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "log_file_size": "existing files keep their size, and new stores get RocketMQ's",
        "queue_file_size": "existing files keep their size, and new stores get RocketMQ's",
        "compat": "tombstone_retention_ms = 0 drops tombstones as early as RocketMQ does",
    }


@attrs.define(eq=False)
class CompactionPlugin(reput.Plugin):
    """Keeps the latest message of every key of some topics, however long ago it was stored."""

    name: ClassVar[str] = "compaction"
    config_type: ClassVar[type] = CompactionConfig
    log_file_size: ClassVar[int] = LOG_FILE_SIZE
    """Approximate bytes of a file of records, in a store that has none yet."""
    queue_file_size: ClassVar[int] = QUEUE_FILE_SIZE
    """Approximate bytes of a file of units; 46 per message, and the last slot is never used."""

    config: CompactionConfig = attrs.field(factory=CompactionConfig)
    context: StoreContext = attrs.field(init=False)
    topics: frozenset[str] = attrs.field(init=False, factory=frozenset)
    """Topics that are compacted, as determined when the store was opened."""
    queues: dict[tuple[str, int], CompactedQueue] = attrs.field(init=False, factory=dict)
    files: PairFiles = attrs.field(init=False)
    checkpoint: Checkpoint = attrs.field(init=False)
    worker: CompactionWorker | None = attrs.field(init=False, default=None)
    """None in a store that is only read."""
    _follower: TailingReader | None = attrs.field(init=False, default=None)
    _saves_topics: bool = attrs.field(init=False, default=False)

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Find out which topics are compacted, and how large files are."""
        self.context = context
        self.queues, self._follower = {}, None
        self.topics = compacted_topics(context, self.config.topics)
        asked = file_sizes(self.log_file_size, self.queue_file_size)
        pool = FilePool(context.disk, _FILES_OPEN, write=context.writable)
        self.files = PairFiles(context.root, context.disk, pool, find_sizes(context, asked))
        if self.files.sizes != asked:
            logger.info("files that exist keep their size log=%d queue=%d", *self.files.sizes)
        path = context.directory(DIRECTORY, CHECKPOINT)
        self.checkpoint = Checkpoint(context.disk, path, context.note_problem)
        self.worker = self._worker(context) if context.writable else None

    def _worker(self, context: StoreContext) -> CompactionWorker:
        from reput_compaction.run.keeprules import KeepRules
        from reput_compaction.worker import CompactionWorker, Timing

        rules = KeepRules(
            retention_ms=self.config.tombstone_retention_ms,
            memory=self.config.offset_map_size,
        )
        timing = Timing(interval_ms=self.config.interval_ms, roll_ms=self.config.roll_ms)
        return CompactionWorker(context, self.files, self.checkpoint, self.queues, rules, timing)

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        """Finish replacements, repair files, and cut what the log lost or will dispatch again."""
        if not self.context.writable:
            return progress
        from reput_compaction.run.logcomparison import compare_with_log
        from reput_compaction.run.recovery import QueueRecovery, finish_replacement

        sweep(self.context)
        disk, directory = self.context.disk, self.context.directory
        flush = not self.context.clean
        disk.finish_replacing(directory(DIRECTORY), CHECKPOINT, f"{CHECKPOINT}.bak", flush=flush)
        disk.finish_replacing(directory(OWN_DIRECTORY, DIRECTORY), flush=flush)
        limit = max_physical_offset
        if self.context.recovery != "rocketmq":
            limit = min(limit, progress)
        needed, recoveries, lacking = progress, [], []
        for topic, queue_id in find_queues(self.context):
            if topic not in self.topics:
                logger.warning("no topic to compact, its files stay as they are topic=%s", topic)
                continue
            places = Places.of(self.context, topic, queue_id)
            disk.finish_replacing(places.notes, flush=flush)
            finish_replacement(self.context, places, (topic, queue_id), self.checkpoint)
            queue = self._queue(topic, queue_id)
            recovery = QueueRecovery(self.context, queue, self.files, limit)
            recovery.load()
            if recovery.lacks_notes:
                # What the log has is dispatched again if it was not yet, but stays.
                recovery.limit = max_physical_offset
                lacking.append(queue)
            recoveries.append(recovery)
        compare_with_log(self.context, self.files, lacking)
        for recovery in recoveries:
            needed = min(needed, recovery.run())
        for (topic, queue_id), queue in self.queues.items():
            if queue.checkpoint >= queue.max_offset:
                # Messages that replace the cut ones were not compacted. In any other case, another
                # run does no harm.
                queue.checkpoint = -1
                self.checkpoint.set(topic, queue_id, queue.checkpoint)
        self._saves_topics = self.topics != self._known_topics()
        if self.topics - self._known_topics():
            return 0  # all messages are wanted of a topic that is new to the plugin
        return needed

    def _queue(self, topic: str, queue_id: int) -> CompactedQueue:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            from reput_compaction.queue.compactedqueue import CompactedQueue
            from reput_compaction.run.tombstones import Tombstones

            places = Places.of(self.context, topic, queue_id)
            queue = CompactedQueue(topic, queue_id, places, self.files)
            queue.checkpoint = self.checkpoint.get(topic, queue_id)
            queue.tombstone_timestamp = Tombstones.load(self.context.disk, places).oldest
            self.queues[topic, queue_id] = queue
        return queue

    # ------------------------------------------------------------------ which topics are complete

    def _known_topics(self) -> frozenset[str]:
        """Return the topics whose messages were searched for in the whole log."""
        names = self.context.notes.read_object(TOPICS).get("names")
        return frozenset(names if isinstance(names, list) else ())

    def _save_topics(self) -> None:
        self.context.notes.save_object(TOPICS, {"names": sorted(self.topics)})

    # ------------------------------------------------------------------ writing

    @property
    def put_interest(self) -> PutInterest:
        """Messages of compacted topics."""
        return PutInterest(topics=frozenset(self.topics))

    @reput.hookimpl
    def reput_put(self, messages: Sequence[Message]) -> None:
        """Refuse messages of compacted topics that have no key."""
        for message in messages:
            if message.topic in self.topics and is_blank(_keys_of(message)):
                raise MessageIllegalError(
                    "keys",
                    message.keys,
                    None,
                    f"topic {message.topic} is compacted by key; give one",
                )

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Copy the records of compacted topics."""
        for run in runs(batch, self.topics):
            self._queue(run.topic, run.queue_id).append(batch, run.rows)

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Flush everything that was copied so far."""
        self.files.unflushed.flush()
        if self._saves_topics:
            # Not sooner: by now the store has recorded that this plugin starts at the log's head.
            self._save_topics()
            self._saves_topics = False

    @reput.hookimpl
    def reput_work(self, now: int) -> int | None:
        """Compact queues in which something can be dropped."""
        return None if self.worker is None else self.worker.work(now)

    def compact(
        self,
        topic: str | Collection[str] | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
        engine: Engine | None = None,
        split_size: int | None = None,
    ) -> list[Compacted]:
        """Compact everything dispatched so far, including files that are being written.

        With an engine the compaction is a job: its tasks run in other processes, on this machine or
        on others that see the store's directory under the same path. The resulting files are the
        same to the byte. All of them are written before the files of the first queue are replaced.

        Args:
            topic: only this topic, or these; by default all compacted topics.
            progress: called now and then with bytes done, and bytes to be done in all; both may
                grow.
            engine: see `reput_tools.offline.Engine`; the plugin must be installed wherever it runs
                tasks.
            split_size: approximate bytes of records that a task of the engine reads; the default is
                256 MiB, and less where there would be too few tasks.

        Returns:
            What became of each queue that had work to do.

        Raises:
            ValueError: a topic is not compacted.
            CorruptFileError: files of a queue are damaged; with an engine no queue was changed.
            TaskFailedError: a task of the engine failed for another reason; no queue was changed.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        if self.worker is None:
            raise ReadOnlyStoreError("store", None, None, 'it was opened with mode="r"')
        wanted = self.topics if topic is None else {topic} if isinstance(topic, str) else set(topic)
        for name in sorted(wanted - self.topics):
            known = ", ".join(sorted(self.topics)) or "none"
            raise ValueError(f"topic {name!r} is not compacted; compacted topics: {known}")
        chosen = [each for key, each in sorted(self.queues.items()) if key[0] in wanted]
        return self.worker.compact(
            chosen, progress or (lambda done, total: None), engine, split_size
        )

    # ------------------------------------------------------------------ reading

    @reput.hookimpl(tryfirst=True)
    def reput_read(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int
    ) -> ReadResult | None:
        """See `reput.plugin.hookspecs.reput_read`; None for topics that are not compacted."""
        if topic not in self.topics:
            return None
        from reput_compaction.queue.queueread import read

        if not self.context.writable and self._is_there(topic, queue_id):
            return self.follower.ask(
                topic,
                queue_id,
                lambda queue: read(queue, queue_offset, max_count, max_bytes),
                lambda result: not result.holes,
            )
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        return read(queue, queue_offset, max_count, max_bytes)

    @reput.hookimpl(tryfirst=True)
    def reput_offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: str
    ) -> int | None:
        """See `reput.plugin.hookspecs.reput_offset_by_time`; None for topics not compacted."""
        if topic not in self.topics:
            return None
        from reput_compaction.queue.timesearch import offset_by_time

        if not self.context.writable and self._is_there(topic, queue_id):
            return self.follower.ask(
                topic,
                queue_id,
                lambda queue: offset_by_time(queue, timestamp, boundary),
                lambda found: True,
            )
        queue = self.queues.get((topic, queue_id))
        return 0 if queue is None else offset_by_time(queue, timestamp, boundary)

    @property
    def follower(self) -> TailingReader:
        """Reads queues that another process writes; made, and imported, for the first of them."""
        if self._follower is None:
            from reput_compaction.queue.tailingreader import TailingReader

            asked = file_sizes(self.log_file_size, self.queue_file_size)
            self._follower = TailingReader(self.context, lambda: find_sizes(self.context, asked))
        return self._follower

    def _is_there(self, topic: str, queue_id: int) -> bool:
        if not 0 <= queue_id <= _QUEUE_ID_MAX:
            return False
        return self.context.disk.exists(Places.of(self.context, topic, queue_id).log)

    @reput.hookimpl
    def reput_queues(self) -> list[QueueInfo]:
        """Return every compacted queue; kept messages may be older than the whole log."""
        return self.extents()

    def extents(self) -> list[QueueInfo]:
        """Return every compacted queue with its extent."""
        if self.context.writable:
            from reput_compaction.queue.queueread import beside_runs

            return [
                beside_runs(queue, functools.partial(_info, queue))
                for _, queue in sorted(self.queues.items())
            ]
        return [
            self.follower.ask(*key, _info, lambda info: True)
            for key in find_queues(self.context)
            if key[0] in self.topics
        ]

    def summaries(self) -> list[QueueSummary]:
        """Return how much each compacted queue holds, and how far it is compacted."""
        from reput_compaction.queue.queueread import beside_runs
        from reput_compaction.run.queuesummary import summary_of

        checkpoint = self.checkpoint
        if self.context.writable:
            return [
                beside_runs(queue, functools.partial(summary_of, queue, checkpoint))
                for _, queue in sorted(self.queues.items())
            ]
        path = self.context.directory(DIRECTORY, CHECKPOINT)
        checkpoint = Checkpoint(self.context.disk, path)  # another process may write it
        return [
            self.follower.ask(*key, lambda queue: summary_of(queue, checkpoint), lambda info: True)
            for key in find_queues(self.context)
            if key[0] in self.topics
        ]

    # ------------------------------------------------------------------ maintaining

    @property
    def kept_size(self) -> int:
        """Bytes of all records that are kept."""
        return sum(queue.size for queue in list(self.queues.values()))

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return topics, queues, and why queues could not be compacted."""
        queues, worker = list(self.queues.values()), self.worker
        return {
            "topics": sorted(self.topics),
            "queue_count": len(self.extents()),
            "kept_count": sum(queue.count for queue in queues),
            "kept_size": self.kept_size,
            "run_count": 0 if worker is None else worker.run_count,
            "refused_count": sum(queue.refused_count for queue in queues),
            "log_file_size": self.files.sizes.log,
            "queue_file_size": self.files.sizes.queue,
            "failures": {
                f"{topic}/{queue}": text
                for (topic, queue), text in sorted(worker.failures.items() if worker else ())
            },
        }

    @reput.hookimpl(optionalhook=True)
    def reput_tools_sizes(self, root: str, disk: Disk) -> Mapping[str, int | None]:
        """See `reput_tools.offline.hookspecs.reput_tools_sizes`."""
        asked = file_sizes(self.log_file_size, self.queue_file_size)
        return whole_sizes(InStore(root, disk), asked)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_wrong_entries(self) -> Iterator[CorruptFileError]:
        """See `reput_tools.offline.hookspecs.reput_tools_wrong_entries`."""
        from reput_compaction.queue.wrongentries import wrong_entries

        for topic, queue_id in find_queues(self.context):
            if topic in self.topics:
                yield from self.follower.ask(
                    topic,
                    queue_id,
                    lambda queue: list(wrong_entries(self.context, queue)),
                    lambda found: not found,
                )

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close files."""
        if self.worker is not None:
            self.worker.close()
        if hasattr(self, "files"):
            self.files.pool.close()


def _keys_of(message: Message) -> str:
    if message.keys:
        return message.keys if isinstance(message.keys, str) else " ".join(message.keys)
    properties = message.properties
    if isinstance(properties, bytes):
        return parse_properties(properties).get(PROPERTY_KEYS, "")
    return (properties or {}).get(PROPERTY_KEYS) or ""


def _info(queue: CompactedQueue) -> QueueInfo:
    timestamp = None
    first, end = queue.min_offset, queue.max_offset
    last = next((pair for pair in reversed(queue.pairs) if pair.count), None)
    if last is not None:
        units = queue.files.read_units(last, last.count - 1, last.count)
        timestamp = int(units["store_timestamp"][0]) if len(units) else None
    return QueueInfo(queue.topic, queue.queue_id, first, end, timestamp)

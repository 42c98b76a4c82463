"""The plugin ``index``: its options, and its hooks."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
from attrs.validators import instance_of, optional

import reput
from reput.errors import ConfigError, CorruptFileError
from reput.files import OWN_DIRECTORY, FilePool
from reput.plugin import QueryResult, integer_between
from reput_index.batchkeys import KeysOfBatch
from reput_index.files.header import Geometry
from reput_index.files.indexfiles import IndexFiles
from reput_index.layout import (
    DIRECTORY,
    ITEM_SIZE,
    ITEMS_PER_FILE,
    SLOT_SIZE,
    SLOTS_PER_FILE,
    TAG_PREFIX,
    file_size,
)
from reput_index.query.keyquery import Question, find
from reput_index.query.rocketmqquery import find_as_rocketmq
from reput_index.recovery import RecoveryReport
from reput_index.tagitems import TagsSource, adds_tags

if TYPE_CHECKING:
    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput.record import DispatchBatch
    from reput_index.batchkeys import HashedKeys
    from reput_index.offline.shards import IndexBuilder
    from reput_index.tagitems import WrittenTags
    from reput_tools.offline import Compared, Comparison, Difference, RecordHints

logger = logging.getLogger(__name__)

_INT32_MAX = (1 << 31) - 1
_LATEST = (1 << 63) - 1
_FILES_OPEN = 16
_TRIES = 8  # attempts to read files that a writer is cutting meanwhile


@attrs.frozen(kw_only=True)
class IndexConfig:
    """Options of the ``index`` plugin."""

    slots_per_file: int = attrs.field(
        default=SLOTS_PER_FILE, validator=integer_between(1, _INT32_MAX // SLOT_SIZE)
    )
    """Hash slots in one file; 5,000,000 are 20 MB, which stay in memory while the file is written.
    Existing files keep their number of slots.

    Lower it when memory is short or a store has few keys.
    """
    items_per_file: int = attrs.field(
        default=ITEMS_PER_FILE, validator=integer_between(2, _INT32_MAX // ITEM_SIZE)
    )
    """Items in one file, including one that is never used; 20,000,000 are 400 MB, which a file
    takes as it fills.

    Lower it, together with the slots, when retention must remove old keys in smaller steps.
    """
    small_sizes: ClassVar[Mapping[str, Any]] = {
        # 256 KiB: the part of a file that has its size from the start.
        "slots_per_file": 65_536,
        # Four for each slot, as in RocketMQ: 5 MiB, a key or two of each message in a log file.
        "items_per_file": 262_144,
    }
    """Options of new stores that are not made for a broker."""
    tags: bool | None = attrs.field(default=None, validator=optional(instance_of(bool)))
    """Whether the index gets an item for the tags of each message, as RocketMQ adds it since
    release 5.4; `IndexPlugin.query_by_tag` finds messages by it. None stands for what the store's
    broker does: yes if the directory has ``rocksdbstore/``, which each broker since 5.4 makes, or
    if the newest tagged message of the files that exist has such an item. Existing files, and
    rebuilt ones, keep the items that they have.

    Set it when messages of a store that no broker has written are to be found by their tags.
    """

    def __attrs_post_init__(self) -> None:
        size = file_size(self.slots_per_file, self.items_per_file)
        if size > _INT32_MAX:
            reason = (
                f"files of {self.slots_per_file} slots and {self.items_per_file} items have {size} "
                f"bytes, and at most {_INT32_MAX} are possible"
            )
            raise ConfigError("index", "items_per_file", reason)


@attrs.define(eq=False, repr=False)
class IndexPlugin(reput.Plugin):
    """Keeps a hash index of the messages' keys, and finds messages by key."""

    name: ClassVar[str] = "index"
    config_type: ClassVar[type] = IndexConfig

    config: IndexConfig = attrs.field(factory=IndexConfig)
    context: StoreContext = attrs.field(init=False)
    index: IndexFiles = attrs.field(init=False)
    dispatched_to: int = attrs.field(init=False, default=0)
    """Physical offset of the first message whose keys are not all in the files."""
    _keys_added: int = attrs.field(init=False, default=0)
    """Number of that message's keys that are in the files, as the disk failed at the next one."""
    _keys_of: KeysOfBatch | None = attrs.field(init=False, default=None)
    """Set when the first message comes: which items it gets depends on the files."""
    _old_files: WrittenTags | None = attrs.field(init=False, default=None)
    """In a rebuild, the files that are in use."""

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Find the files that are on disk."""
        self.context = context
        self._keys_added = 0
        self._keys_of = None
        self.index = self._files(context)
        if context.sizes_from:
            self.index.follow(f"{context.sizes_from}/{DIRECTORY}")
        if context.writable:
            self.index.load()

    def _files(self, context: StoreContext) -> IndexFiles:
        return IndexFiles(
            context.directory(DIRECTORY),
            context.directory(OWN_DIRECTORY, "index-file"),
            context.disk,
            # A reader opens a file for each answer: the writer may have replaced it meanwhile.
            FilePool(context.disk, _FILES_OPEN if context.writable else 0, write=context.writable),
            Geometry(self.config.slots_per_file, self.config.items_per_file),
            context.writable,
            grows=context.grows,
        )

    @reput.hookimpl
    def reput_recover(self, progress: int) -> int:
        """Cut what was added above ``progress``, and repair what a crash left half-written."""
        if self.context.writable:
            files = self.index.files
            if files and not (
                self.context.clean and progress > files[-1].header.end_physical_offset
            ):
                self._keys_of = self._choose_keys()  # as these files do, which may be cut now
            lower = self.context.lower_checkpoint
            recovery = RecoveryReport(self.index, self.context.log, lower)
            progress = recovery.run(progress, clean=self.context.clean)
        self.dispatched_to = progress
        return progress

    # ------------------------------------------------------------------ offline tools

    @reput.hookimpl(optionalhook=True)
    def reput_tools_shards(self, context: StoreContext) -> IndexBuilder:
        """Return what builds the index, in files of the sizes that a writer's would have."""
        from reput_index.offline.shards import IndexBuilder

        index = attrs.evolve(self._files(context), writable=True)
        index.follow(index.directory)
        tags = self._written_tags(context, context.root, index)
        return IndexBuilder(index.geometry, context.disk, tags, grows=context.grows)

    def _written_tags(self, context: StoreContext, root: str, index: IndexFiles) -> TagsSource:
        return TagsSource.of(root, self.config.tags, context.disk, index.geometry, context.log)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_named_by_clock(self) -> frozenset[str]:
        """Name the directory of the index: RocketMQ names a new file by the clock."""
        return frozenset({DIRECTORY})

    @reput.hookimpl(optionalhook=True)
    def reput_tools_compare(
        self, comparison: Comparison, differences: Sequence[Difference]
    ) -> Compared | None:
        """Compare items, and not bytes, of a log without its head."""
        from reput_index.offline.compare import weigh

        geometry = Geometry(self.config.slots_per_file, self.config.items_per_file)
        return weigh(comparison, differences, geometry)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_explain(
        self, comparison: Comparison, differences: Sequence[Difference]
    ) -> Sequence[Difference]:
        """Say which header fields, slots and items differ, of which messages."""
        from reput_index.offline.explain import explain

        geometry = Geometry(self.config.slots_per_file, self.config.items_per_file)
        pool = FilePool(comparison.disk, 0)
        index = IndexFiles(
            os.path.join(comparison.root, DIRECTORY), "", comparison.disk, pool, geometry, True
        )
        index.follow(index.directory)
        return [explain(comparison, each, index.geometry) for each in differences]

    @reput.hookimpl(optionalhook=True)
    def reput_tools_hints(self, root: str, disk: Disk) -> Iterator[RecordHints]:
        """Yield what items say: a message's place, its time, and a key's hash."""
        from reput_index.offline.hints import leads

        return leads(root, disk, Geometry(self.config.slots_per_file, self.config.items_per_file))

    # ------------------------------------------------------------------ dispatching

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Add the keys of ``batch``."""
        fresh = batch.after(self.dispatched_to)
        if len(fresh):
            if self._keys_of is None:
                self._keys_of = self._choose_keys()
            if not self.index.files:
                # Made for the first message, even without keys, as in RocketMQ: a directory without
                # a file means that no message was seen.
                self.index.make(int(fresh.store_timestamp[0]))
            self._add(self._keys_of(fresh))
        self.dispatched_to = max(self.dispatched_to, batch.end_offset)
        self._keys_added = 0

    def _choose_keys(self) -> KeysOfBatch:
        """Return what makes the keys: in a rebuild, of the same tags as in the old files."""
        context = self.context
        if context.sizes_from:
            tags = self._written_tags(context, context.sizes_from, self.index)
            self._old_files = tags.open(context.disk)
            return KeysOfBatch(self._old_files)
        return KeysOfBatch(
            adds_tags(self.config.tags, context.root, context.disk, self.index, context.log)
        )

    def _add(self, keys: HashedKeys) -> None:
        done = 0
        if self._keys_added and len(keys.hashes) and keys.physical_offsets[0] == self.dispatched_to:
            done = self._keys_added
        while done < len(keys.hashes):
            done += self.index.append(keys.behind(done))
            if done < len(keys.hashes):  # creating the next file may fail
                at = keys.physical_offsets[done]
                self.dispatched_to = int(at)
                self._keys_added = done - int(np.searchsorted(keys.physical_offsets, at))

    @reput.hookimpl
    def reput_flush(self) -> Mapping[str, int]:
        """Flush everything, and note the full files as on disk."""
        self.index.flush()
        return {"index_timestamp": self.index.safe_timestamp(self.context.log)}

    # ------------------------------------------------------------------ reading

    @reput.hookimpl
    def reput_query(
        self,
        topic: str,
        key: str,
        begin: int,
        end: int,
        limit: int | None,
        oldest_first: bool,
        after: int | None,
    ) -> QueryResult:
        """See `reput.plugin.hookspecs.reput_query`."""
        return self._ask(find, Question(topic, key, begin, end, limit, oldest_first, after))

    def query_by_tag(
        self,
        topic: str,
        tags: str,
        begin: int = 0,
        end: int = _LATEST,
        limit: int | None = None,
        *,
        oldest_first: bool = False,
        after: int | None = None,
    ) -> QueryResult:
        """Find messages of a topic by their tags, through the items that `IndexConfig.tags` adds.

        Messages of a release or an option that adds no such items are not found.

        Args:
            topic: the topic's name.
            tags: the whole text of the tags.
            begin: store time of the oldest message wanted, ms.
            end: store time of the newest message wanted, ms.
            limit: most messages to return; all when left out.
            oldest_first: whether the oldest message comes first, and not the newest.
            after: ``after`` of the previous answer, to continue after its messages.
        """
        key = TAG_PREFIX + tags
        question = Question(topic, key, begin, end, limit, oldest_first, after, is_tag=True)
        return self._ask(find, question)

    def query_as_rocketmq(
        self, topic: str, key: str, begin: int = 0, end: int = _LATEST, limit: int | None = None
    ) -> QueryResult:
        """Answer as RocketMQ: at most 64 messages, by a hash of the key, in RocketMQ's order.

        Args:
            topic: the topic's name.
            key: the whole key; messages with another key of the same hash are found, too.
            begin: store time of the oldest message wanted, ms; compared in whole seconds.
            end: store time of the newest message wanted, ms; likewise.
            limit: most messages to return, 64 at most, which is also the default.
        """
        return self._ask(find_as_rocketmq, Question(topic, key, begin, end, limit))

    def _ask(self, answer: Callable[..., QueryResult], question: Question) -> QueryResult:
        if self.context.writable:
            return answer(self.index, self.context.log, question, self.dispatched_to)
        return self._beside_writer(answer, question)

    def _beside_writer(self, answer: Callable[..., QueryResult], question: Question) -> QueryResult:
        """Answer a question in a read-only store, whose files a writer may be cutting.

        A writer that recovers from a crash lowers an item count before it zeroes items. So an
        answer is right if its items still count afterwards; if they do not, it is repeated.

        Raises:
            CorruptFileError: the files contradict themselves, although no writer changes them.
        """
        log, result = self.context.log, None
        for _ in range(_TRIES):
            # Files stay open for one answer only: the writer may give their names to others.
            pool = FilePool(self.context.disk, _FILES_OPEN)
            index = attrs.evolve(self.index, files=(), pool=pool)
            try:
                with contextlib.closing(pool):
                    index.load()
                    ends = (file.header.end_physical_offset for file in index.files)
                    indexed_to = min(max(ends, default=0), log.max_physical_offset)
                    result = answer(index, log, question, indexed_to)
            except CorruptFileError:
                if index.stands():
                    raise
                continue
            if index.stands():
                return result
        if result is None:
            return QueryResult((), False, question.after, 0)
        # There may be more messages: the caller has to ask again.
        return attrs.evolve(result, is_complete=False, indexed_to=0)

    # ------------------------------------------------------------------ maintaining

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Remove files that point only to the log's lost head."""
        if self.context.writable:
            self.index.trim(min_physical_offset)

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return files, items and geometry."""
        if not self.context.writable:
            self.index.load()
        files = self.index.files
        return {
            "file_count": len(files),
            "item_count": sum(file.item_count for file in files),
            "slots_per_file": self.index.geometry.slot_count,
            "items_per_file": self.index.geometry.item_count,
        }

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close files."""
        if hasattr(self, "index"):
            self.index.pool.close()
        if self._old_files is not None:
            self._old_files.index.pool.close()

"""`Store`: the log, its plugins and the threads between them, as one object.

This class lists every method that a user of a store may call, and what it promises. Other modules
do the work: `reput.store.calls.writes` and `reput.store.calls.reads` put and read,
`reput.dispatch` drives the plugins, `reput.store.ending.closing` closes, and
`reput.store.opening.open` puts a store together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, overload

from reput.errors import (
    NotReplicaError,
    OffsetOutOfRangeError,
    PluginFlushError,
    ReadOnlyStoreError,
)
from reput.plugin.access import DROP, KEEP
from reput.plugin.base import Plugin
from reput.record.ids import parse_message_id
from reput.record.messages.plain import shown
from reput.store.calls.arguments import (
    flag_argument,
    function_argument,
    plugin_argument,
    seconds_argument,
    table_argument,
    text_argument,
    whole_number,
)
from reput.store.calls.reporting import log_facts, plugin_facts, recovery_facts
from reput.store.ending.exiting import do_not_close_at_exit
from reput.store.ending.forked import is_forked

if TYPE_CHECKING:
    from reput.dispatch.members import Members
    from reput.dispatch.records.deadletters import DeadLetter
    from reput.dispatch.running.phase import PluginState
    from reput.log.damage import Loss
    from reput.log.recovery.end import RecoveryReport
    from reput.log.writing.receipts import BatchReceipt, Receipt
    from reput.plugin.access import TrimReport
    from reput.plugin.answers import QueryResult, QueueInfo, ReadColumns, ReadResult
    from reput.plugin.filters import MessageFilter
    from reput.record.batch import DispatchBatch
    from reput.record.encoding.many import Columns
    from reput.record.messages.message import Message
    from reput.record.view import MessageView
    from reput.store.access import OpenParts

__all__ = ["Store"]

_Plugin = TypeVar("_Plugin", bound=Plugin)
_LATEST: Final = (1 << 63) - 1


class Store:
    """An open store. Made by `reput.open`; thread-safe; a context manager that closes itself."""

    def __init__(
        self,
        parts: OpenParts,
        members: Members | None,
        *,
        recovery: RecoveryReport,
        clean: bool,
        problems: Sequence[str],
    ) -> None:
        """Build the object from parts that `reput.open` has made.

        Args:
            parts: what answers reads and puts.
            members: the plugins of a writable store; None for a read-only one.
            recovery: what opening found at the end of the log.
            clean: whether the last writer had closed the store.
            problems: which parts of the store cannot be used, as texts.
        """
        self.root = parts.closer.root
        """The store's directory."""
        self.writable = members is not None
        """Whether it was opened with ``mode="w"``."""
        self.clean = clean
        """Whether the last writer had closed the store (false while a writer has it open)."""
        self.log = parts.log
        """The commit log; see `reput.log.LogView`."""
        self.config = parts.log.config
        """Options of the commit log."""
        self.recovery = recovery
        """What opening found at the end of the log."""
        self.problems = tuple(problems)
        """Which parts of the store cannot be used, as texts; always empty in a writable store."""
        self._parts = parts
        self._active = parts.active
        self._reads = parts.reads
        self._writes = parts.writes
        self._closer = parts.closer
        self._disk = parts.disk
        self._members = members
        self._put = parts.writes.put

    def __repr__(self) -> str:
        state = "closed" if self.closed else "writable" if self.writable else "read-only"
        return f"<Store {self.root!r} {state} plugins={sorted(self._active.objects)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ writing

    def put(self, message: Message) -> Receipt:
        """Store one message.

        With ``flush="sync"`` the call returns when the message is on disk, unless the message's
        property ``WAIT`` is ``false``.

        Raises:
            TypeError: ``message`` is no `reput.Message`.
            MessageIllegalError: a field that cannot be stored (`MessageTooLargeError` for sizes).
            PropertiesSizeError: the encoded properties are over 32,767 bytes.
            CreateMappedFileError: no room for another file; nothing was stored.
            ServiceNotAvailableError: the store is closed (`StoreClosedError`) or read-only
                (`ReadOnlyStoreError`), or its disk failed.
            FlushDiskTimeoutError: stored, but not on disk within ``flush_timeout_ms``.
        """
        return self._put(message)

    def put_many(
        self, messages: Sequence[Message] | Columns, *, whole: bool = False, wait: bool = True
    ) -> BatchReceipt:
        """Store many messages in their order, much faster than one by one.

        All messages are checked first: when one is refused, none is stored. If the disk fills up
        meanwhile, the messages that fitted stay stored: the error's `stored_count` tells how many
        of the first messages these are, and its `stored` where they are. Put only the others again.

        With ``flush="sync"`` the call returns when all messages are on disk, whatever their
        properties ``WAIT`` say.

        Args:
            messages: the messages, as objects or as columns.
            whole: whether all messages are stored or none, also where the disk fills up. They are
                stored in one log file, whose room is made before the first byte is written.
            wait: False if several calls are to share one wait for the disk: `BatchReceipt.wait` of
                the last one covers all of them.

        Raises:
            MessageTooLargeError: ``whole`` is asked for, and no log file has room for them.
            PutError: as for `put`.
            TypeError: ``messages`` are neither messages nor columns.
        """
        return self._writes.put_many(messages, whole=whole, wait=wait)

    # ------------------------------------------------------------------ being a replica

    @property
    def role(self) -> Literal["primary", "replica"]:
        """``"replica"`` for a store that takes a master's bytes; ``"primary"`` if it takes puts."""
        return "primary" if self._parts.log.master is None else "replica"

    @property
    def master(self) -> str | None:
        """Name of a replica's master, as `reput.open` was given it; None in a primary."""
        return self._parts.log.master

    @property
    def fed_offset(self) -> int:
        """Physical offset of the next byte that `feed` wants: the end of what was fed.

        In a store that is not fed, the end of the log. 0 in an empty replica, whose first bytes may
        be those at the start of any file of the master.
        """
        feeding = self._parts.log.feeding
        return self.log.max_physical_offset if feeding is None else feeding.fed_offset

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which the log is on disk."""
        return self._parts.log.flushed_offset

    def wait_flushed(self, physical_offset: int, timeout: float | None = None) -> bool:
        """Wait until the log is on disk below ``physical_offset``; it is flushed if necessary.

        Args:
            physical_offset: at most the end of the log.
            timeout: seconds; None waits as long as it takes.

        Returns:
            Whether it is on disk; False if the time is over.

        Raises:
            ServiceNotAvailableError: the store is closed, read-only, or its disk failed.
        """
        self._writing()
        offset = whole_number("physical_offset", physical_offset)
        return self._parts.log.wait_flushed(offset, timeout)

    def feed(self, physical_offset: int, data: bytes | bytearray | memoryview) -> None:
        """Append bytes of the master's log to that of a replica.

        The bytes may begin and end anywhere. Records that are whole and valid are in the log when
        this returns, and are flushed as puts are with ``flush="async"``; the part of a record at
        the end is kept in memory until its other bytes are fed, or until the store is closed.
        Thread-safe, and most useful from one thread.

        Args:
            physical_offset: where ``data`` stands in the master's log: at `fed_offset`, or before
                it. Bytes that were fed before are compared with those that are here, and skipped.
            data: any number of bytes, also of several files.

        Raises:
            NotReplicaError: the store is a primary.
            FeedGapError: the bytes begin after `fed_offset`, or before the log does; or they are an
                empty log's first ones, and begin inside of a file.
            CorruptFeedError: no valid record begins where one should. The records before it are in
                the log; `fed_offset` is where they end.
            DivergedError: the master has other bytes at an offset than this store. The master's are
                copied to ``reput/lost+found``, and every later call raises this error, too.
            CreateMappedFileError: no room for another file; feed again from `fed_offset` on.
            ServiceNotAvailableError: the store is closed (`StoreClosedError`) or read-only
                (`ReadOnlyStoreError`), or its disk failed.
            TypeError: an argument of a wrong type.
        """
        self._writing()
        feeding = self._parts.log.feeding
        if feeding is None:
            raise NotReplicaError(
                self.root, "it is not a replica; open a new directory with master= to feed it"
            )
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data: bytes expected, found {shown(data)}")
        feeding.feed(whole_number("physical_offset", physical_offset), data)

    def promote(self) -> None:
        """Make a replica a primary, durably: puts work when this returns, and `feed` does not.

        What is in the log stays, brought to disk; the part of a record that has not come whole is
        dropped. Waits until the plugins that keep queue offsets have seen all messages, as the next
        message of a queue continues its offsets. Plugins that put by themselves, such as delayed
        deliveries, begin at the next opening.

        Raises:
            NotReplicaError: the store is a primary.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            ServiceNotAvailableError: the log cannot be flushed; the store stays a replica.
            OSError: the role cannot be recorded; the store stays a replica.
        """
        self._writing()
        feeding = self._parts.log.feeding
        if feeding is None or self._parts.promote is None:
            raise NotReplicaError(self.root, "it is not a replica, and takes puts already")
        self._parts.promote(feeding)

    # ------------------------------------------------------------------ flushing

    def flush(self) -> None:
        """Bring everything to disk: log, plugins' files, their progress, the checkpoint.

        Returns when everything that was put and dispatched before the call is on disk. Waits for a
        plugin as long as its flush advances, and not at all for a suspended plugin, whose progress
        stays where it is.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed.
            PluginFlushError: a plugin's flush failed or does not return; all else is on disk.
        """
        self._check_open()
        if self._members is None:
            return
        missed = self._members.plugin_flusher.flush()
        if missed:
            name = min(missed)
            others = ", ".join(sorted(missed.keys() - {name}))
            raise PluginFlushError(
                name,
                f"it could not be flushed: {missed[name]}; all else is on disk"
                + (f", but for {others}" if others else "")
                + ". Flush again later; Store.plugins shows how it goes on",
            )

    # ------------------------------------------------------------------ the log

    def get(self, where: str | int) -> MessageView:
        """Return one message by its offset message id, or by the physical offset of its record.

        Raises:
            ValueError: ``where`` is a text, but no message id.
            OffsetOutOfRangeError: the log holds no message there.
        """
        self._check_open()
        if isinstance(where, str):
            offset = parse_message_id(where)[1]
        else:
            offset = whole_number("where", where)
        message = self.log.read_message(offset)
        if message is None:
            low, high = self.log.min_physical_offset, self.log.max_physical_offset
            inside = low <= offset < high
            reason = "no message begins there" if inside else "the log does not hold it"
            raise OffsetOutOfRangeError(offset, low, high, reason)
        return message

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """Iterate over the log in batches, in physical order; see `reput.log.LogView.scan`."""
        self._check_open()
        start = None if start is None else whole_number("start", start)
        end = None if end is None else whole_number("end", end)
        return self.log.scan(start, end, check_crc=check_crc)

    def losses(self) -> list[Loss]:
        """Return what the log is known to have lost, oldest first; see `reput.log.Loss`.

        In a read-only store this includes losses that this opening has found.
        """
        self._check_open()
        return [] if self.log.ledger is None else list(self.log.ledger.entries)

    # ------------------------------------------------------------------ reading queues

    @overload
    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,
        *,
        as_columns: Literal[False] = False,
    ) -> ReadResult: ...

    @overload
    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,
        *,
        as_columns: Literal[True],
    ) -> ReadColumns: ...

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,  # noqa: A002 - the word for it
        *,
        as_columns: bool = False,
    ) -> ReadResult | ReadColumns:
        """Read messages of one queue from ``queue_offset`` on.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: where to begin; the next read begins at the result's
                ``next_queue_offset``.
            max_count: most messages to return.
            max_bytes: stop before this many bytes of records, but return at least one message.
            filter: return only messages that this condition or compiled filter (`filter`) selects.
                One read examines a limited number of messages; if none of these is selected, the
                status is ``NO_MATCHED_MESSAGE`` and the queue may hold more.
            as_columns: return the messages as columns of one batch instead of one object each. The
                answer is the same otherwise: the same messages, status and holes.

        Returns:
            A `ReadResult`, which iterates over messages; with ``as_columns`` a `ReadColumns`.

        Raises:
            NoReaderError: no active plugin can read queues, or none compiles filters.
            MessageIllegalError: ``topic`` cannot be a topic's name.
            ValueError: ``filter`` is no condition.
            TypeError: an argument of a wrong type.
        """
        self._check_open()
        if type(topic) is not str or type(queue_id) is not int or type(queue_offset) is not int:
            topic = text_argument("topic", topic)
            queue_id = whole_number("queue_id", queue_id)
            queue_offset = whole_number("queue_offset", queue_offset)
        if type(max_count) is not int or type(max_bytes) is not int:
            max_count = whole_number("max_count", max_count)
            max_bytes = whole_number("max_bytes", max_bytes)
        chosen = None if filter is None else self._reads.chosen(filter, topic)
        found = self._reads.read(topic, queue_id, queue_offset, max_count, max_bytes, chosen)
        if as_columns is False:
            return found
        from reput.plugin.answers import ReadColumns

        return ReadColumns.of(found) if flag_argument("as_columns", as_columns) else found

    def filter(
        self, expression: str, kind: str | None = None, *, topic: str | None = None
    ) -> MessageFilter:
        """Compile a filter for `read`.

        Args:
            expression: a condition on properties, or tags: ``"paid || shipped"``.
            kind: the expression's language, such as ``"TAG"``, one that a plugin knows; the
                plugin's default when left out.
            topic: the topic that is going to be read; a filter registered for that topic is faster.

        Raises:
            NoReaderError: no active plugin compiles filters of that kind.
            ValueError: ``expression`` is no condition; the text says where it goes wrong.
        """
        self._check_open()
        expression = text_argument("expression", expression)
        kind = None if kind is None else text_argument("kind", kind)
        topic = None if topic is None else text_argument("topic", topic)
        return self._reads.filter(expression, kind, topic)

    def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp: int,
        boundary: Literal["lower", "upper"] = "lower",
    ) -> int:
        """Return the queue offset of the first message from a time on, or of the last until then.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            timestamp: store time, ms.
            boundary: ``"lower"``: the first message stored then or later; ``"upper"``: the last
                message stored then or earlier.

        Raises:
            NoReaderError: no active plugin can read queues.
        """
        self._check_open()
        if boundary not in ("lower", "upper"):
            raise ValueError(f'boundary must be "lower" or "upper", not {boundary!r}')
        topic = text_argument("topic", topic)
        queue_id = whole_number("queue_id", queue_id)
        timestamp = whole_number("timestamp", timestamp)
        return self._reads.offset_by_time(topic, queue_id, timestamp, boundary)

    def queues(self) -> list[QueueInfo]:
        """Return all queues, sorted by topic and queue id.

        Raises:
            NoReaderError: no active plugin can read queues.
        """
        self._check_open()
        return self._reads.queues()

    def query(
        self,
        topic: str,
        key: str,
        begin: int | None = None,
        end: int | None = None,
        limit: int | None = None,
        *,
        oldest_first: bool = False,
        after: int | None = None,
    ) -> QueryResult:
        """Find messages of a topic whose ``UNIQ_KEY``, or a word of whose ``KEYS``, is ``key``.

        Finds only what was dispatched; see ``indexed_to`` of the answer and `wait_dispatched`.

        Args:
            topic: the topic's name.
            key: the whole key.
            begin: store time of the oldest message wanted, ms.
            end: store time of the newest message wanted, ms.
            limit: most messages to return; all when left out.
            oldest_first: whether the oldest message comes first, and not the newest.
            after: ``after`` of the previous answer, to continue after its messages.

        Raises:
            NoReaderError: no active plugin keeps keys.
            ValueError: a limit below 1.
        """
        self._check_open()
        topic, key = text_argument("topic", topic), text_argument("key", key)
        begin = None if begin is None else whole_number("begin", begin)
        end = None if end is None else whole_number("end", end)
        limit = None if limit is None else whole_number("limit", limit)
        after = None if after is None else whole_number("after", after)
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit}")
        asked = {
            "topic": topic,
            "key": key,
            "begin": 0 if begin is None else begin,
            "end": _LATEST if end is None else end,
            "limit": limit,
        }
        return self._reads.query(**asked, oldest_first=oldest_first, after=after)

    # ------------------------------------------------------------------ plugins

    @overload
    def plugin(self, which: type[_Plugin]) -> _Plugin: ...

    @overload
    def plugin(self, which: str) -> Any: ...

    def plugin(self, which: str | type[_Plugin]) -> Any:
        """Return the object of an active plugin, whose own methods a program may call.

        For example ``store.plugin("transaction").commit(half)``. Given the plugin's class, type
        checkers know the methods: ``store.plugin(TransactionPlugin).commit(half)``.

        Raises:
            PluginError: the store does not use the plugin, or the plugin could not be opened.
            StoreClosedError: the store is closed.
            TypeError: ``which`` is neither a name nor a plugin's class.
        """
        self._check_open()
        return self._active.plugin(which)

    @property
    def plugin_objects(self) -> Mapping[str, Any]:
        """The active plugins' objects by name, in dispatch order."""
        return dict(self._active.objects)

    def plugins(self) -> list[PluginState]:
        """Return state, progress, lag and figures of the active plugins, in dispatch order.

        A read-only store shows the values that the last writer recorded.
        """
        return self._active.states()

    def add_plugin(self, plugin: str | Plugin, options: Mapping[str, Any] | None = None) -> str:
        """Add a plugin to those that the store uses, now and at every later opening.

        The plugin begins at the log's first message, or where it stopped when it was removed, and
        catches up while the other plugins go on.

        Args:
            plugin: the name of an installed plugin, or a plugin object.
            options: the plugin's section of the configuration.

        Returns:
            The plugin's name.

        Raises:
            PluginError: it is active already, not installed, cannot be ordered or opened.
            ConfigError: a wrong option.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            TypeError: ``plugin`` is neither a name nor an object, or ``options`` is no mapping.
        """
        live = self._writing()
        return live.add(plugin_argument("plugin", plugin), table_argument("options", options))

    def remove_plugin(self, plugin: str) -> None:
        """Remove a plugin from those that the store uses; its files and its progress stay.

        Raises:
            PluginError: it is not active, another one requires it, or it hangs in a call.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().remove(text_argument("plugin", plugin))

    def suspend_plugin(self, plugin: str) -> None:
        """Give a plugin no messages until it is resumed; a later opening remembers this.

        Raises:
            PluginError: it is not active.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().suspend(text_argument("plugin", plugin))

    def resume_plugin(self, plugin: str) -> None:
        """Open a suspended, failed or halted plugin again, and let it catch up.

        Raises:
            PluginError: it is not active, hangs in a call, or cannot be opened.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().resume(text_argument("plugin", plugin))

    def dead_letters(self, plugin: str) -> list[DeadLetter]:
        """Return the messages that a plugin failed on and that its policy ``"skip"`` passed over.

        Raises:
            PluginError: it is not active.
        """
        plugin = text_argument("plugin", plugin)
        self._active.used("plugin", [plugin])
        from reput.dispatch.records.deadletters import DeadLetterFile

        return DeadLetterFile.of(self.root, plugin, self._disk).read()

    # ------------------------------------------------------------------ dispatching

    def wait_dispatched(
        self,
        timeout: float | None = None,
        progress: Callable[[int, int], None] | None = None,
        plugins: Collection[str] | None = None,
    ) -> bool:
        """Wait until every running plugin has seen all that is in the log now.

        Args:
            timeout: seconds; None waits as long as it takes.
            progress: called now and then with the bytes dispatched and the bytes in all.
            plugins: names of the plugins to wait for; all when left out.

        Returns:
            True when they have seen it; False after ``timeout``.

        Raises:
            PluginError: the store does not use one of ``plugins``.
            TypeError: an argument of a wrong type.
        """
        self._check_open()
        timeout = seconds_argument("timeout", timeout)
        progress = function_argument("progress", progress)
        chosen = None if plugins is None else self._active.used("plugins", plugins)
        if self._members is None:
            return True
        if self.config.reads_durable:
            self.log.flusher.flush()  # what is not on disk is not dispatched
        end = self.log.max_physical_offset
        first = self.log.min_physical_offset
        report = None
        if progress is not None:
            total = progress

            def report(offset: int) -> None:
                total(max(offset - first, 0), end - first)

        return self._members.loop.wait(end, timeout, report, chosen)

    def work(self) -> int | None:
        """Run one slice of each plugin's due work, in a store that has no threads.

        Dispatches all messages before, and the messages that plugins put during it afterwards. In a
        store with threads the plugins work by themselves, and this only wakes them.

        Returns:
            When work is due next, ms; not later than now when more is due already; None when no
            plugin waits for a time, and always in a store with threads.

        Raises:
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        members = self._writing()
        workers = members.workers
        if members.board.calls.threads:
            workers.wake_all()
            return None
        self.wait_dispatched()
        workers.step()
        self.wait_dispatched()
        return workers.next_due

    def trim_log(
        self,
        physical_offset: int,
        *,
        unseen: Literal["keep", "drop"] = "keep",
        dry_run: bool = False,
    ) -> TrimReport:
        """Remove the log's oldest files, and have plugins forget their messages.

        Whole files go, the oldest first, never that of the last message, and none that a plugin
        still needs: for messages that it has not seen, or that it says it needs (`reput_hold`). A
        crash at any point leaves a log without a gap. The plugin ``retention`` calls this by age,
        size and space on the disk.

        Args:
            physical_offset: where the log is to begin; a file that contains this offset stays.
            unseen: what to do with messages that a stopped plugin has not seen: ``"keep"`` them
                until it has, or ``"drop"`` them. Those that a running plugin has not seen are kept.
            dry_run: only report what would be removed, and change nothing; also possible in a store
                opened with ``mode="r"``.

        Raises:
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
            OSError: a file cannot be removed, or what must be on disk before cannot be written.
            TypeError: an argument of a wrong type.
            ValueError: ``unseen`` is neither of its values.
        """
        self._check_open()
        physical_offset = whole_number("physical_offset", physical_offset)
        dry_run = flag_argument("dry_run", dry_run)
        if unseen not in (KEEP, DROP):
            raise ValueError(f'unseen must be "{KEEP}" or "{DROP}", not {shown(unseen)}')
        return self._parts.trim_log(physical_offset, unseen, dry_run=dry_run)

    # ------------------------------------------------------------------ reporting, closing

    def report(self) -> dict[str, Any]:
        """Return facts about log, recovery and plugins, JSON-like."""
        self._check_open()
        return {
            "root": self.root,
            "writable": self.writable,
            "clean": self.clean,
            "log": log_facts(self.log),
            "recovery": recovery_facts(self.recovery),
            "reads": {
                "count": self._reads.read_count,
                "message_count": self._reads.message_count,
            },
            "plugins": plugin_facts(self._active),
        }

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closer.is_closed

    def close(self, timeout: float | None = None) -> None:
        """Dispatch and flush everything, then release files, threads and the lock.

        A second call does nothing; while the first is still running on another thread, it waits. A
        call in a forked child does nothing. If something could not be flushed or dispatched, the
        next opening recovers as after a crash. A signal handler may call this at any moment: it
        refuses a put that its thread has under way, and continues a close. A store that is still
        open when the interpreter ends is closed by `atexit`.

        Args:
            timeout: seconds to wait for plugins that are behind, which catch up at the next
                opening; 10 s when left out.

        Raises:
            ServiceNotAvailableError: flushing failed, but everything is closed; or another thread
                is closing the store, and has not ended after ``timeout``.
            TypeError: ``timeout`` is no number; the store stays open.
        """
        if is_forked(self):
            return  # called by a method that was bound before the fork: `atexit`, an `ExitStack`
        self._closer.close(seconds_argument("timeout", timeout))
        do_not_close_at_exit(self)

    # ------------------------------------------------------------------ parts

    def _check_open(self) -> None:
        self._closer.check_open()

    def _writing(self) -> Members:
        self._check_open()
        if self._members is None:
            raise ReadOnlyStoreError(
                "store", None, None, 'it was opened with mode="r"; open it with mode="w"'
            )
        return self._members

    if not TYPE_CHECKING:  # a type checker must not know these names

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """Return a method that a plugin offers here; see `reput.Plugin.store_methods`."""
            if name.startswith("_"):
                raise AttributeError(name)  # also while the store is not made yet
            return self._active.method(name)

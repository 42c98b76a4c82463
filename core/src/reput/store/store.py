"""`Store`: the log, its plugins and the threads between them, as one object.

All that a user of a store may call stands here, with what it promises. The work is done elsewhere:
`reput.store.writes` and `reput.store.reads` put and read, `reput.dispatch` drives the plugins,
`reput.store.closing` closes. How a store is put together stands in `reput.store.opening`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, overload

from reput.errors import OffsetOutOfRangeError, PluginFlushError, ReadOnlyStoreError
from reput.plugin.base import Plugin
from reput.record.ids import parse_message_id
from reput.record.plain import shown, text_argument, whole_number
from reput.store.arguments import (
    flag_argument,
    function_argument,
    plugin_argument,
    seconds_argument,
    table_argument,
)
from reput.store.exiting import do_not_close_at_exit
from reput.store.forked import is_forked
from reput.store.oldnames import method_of_plugin, query_as_rocketmq
from reput.store.reporting import log_facts, plugin_facts, recovery_facts

if TYPE_CHECKING:
    from reput.dispatch.members import Members
    from reput.dispatch.phase import PluginState
    from reput.dispatch.records.deadletters import DeadLetter
    from reput.log.losses import Loss
    from reput.log.recovery.end import RecoveryReport
    from reput.log.writing.receipts import BatchReceipt, Receipt
    from reput.plugin.answers import QueryResult, QueueInfo, ReadResult
    from reput.plugin.filters import MessageFilter
    from reput.plugin.host.pluginset import PlanStep
    from reput.record.batch import DispatchBatch
    from reput.record.encoding.many import Columns
    from reput.record.message import Message
    from reput.record.view import MessageView
    from reput.retention.config import RetentionConfig
    from reput.retention.plan import ExpiryReport
    from reput.retention.service import RetentionService
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
        retention: RetentionService,
        *,
        recovery: RecoveryReport,
        clean: bool,
        problems: Sequence[str],
    ) -> None:
        """Made by `reput.open`.

        Args:
            parts: what answers reads and puts.
            members: the plugins of a store that is written; None where it is only read.
            retention: says which files of the log go.
            recovery: what opening has found.
            clean: whether the last writer had closed the store.
            problems: what cannot be used, in words.
        """
        self.root = parts.closer.root
        """The store's directory."""
        self.writable = members is not None
        """Whether it was opened with ``mode="w"``."""
        self.clean = clean
        """Whether its last writer had closed it (a store that is being written has not)."""
        self.log = parts.log
        """The commit log; see `reput.log.LogView`."""
        self.config = parts.log.config
        """Options of the commit log."""
        self.recovery = recovery
        """What opening found at the end of the log."""
        self.problems = tuple(problems)
        """What of the store cannot be used, in words; always empty in one that is writable."""
        self.retention = retention.config
        """Options that say how long messages are kept."""
        self._active = parts.active
        self._reads = parts.reads
        self._writes = parts.writes
        self._closer = parts.closer
        self._disk = parts.disk
        self._members = members
        self._expiry = retention
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

        With ``flush="sync"`` returns when it is on disk, unless its property ``WAIT`` is ``false``.

        Raises:
            TypeError: no `reput.Message`.
            MessageIllegalError: a field that cannot be stored (`MessageTooLargeError` for sizes).
            PropertiesSizeError: the encoded properties are over 32,767 bytes.
            CreateMappedFileError: no room for another file; nothing was stored.
            ServiceNotAvailableError: the store is closed (`StoreClosedError`) or read-only
                (`ReadOnlyStoreError`), or its disk failed.
            FlushDiskTimeoutError: stored, but not on disk within ``flush_timeout_ms``.
        """
        return self._put(message)

    def put_many(self, messages: Sequence[Message] | Columns) -> BatchReceipt:
        """Store many messages in their order, much faster than one by one.

        All checks come first: when one message is refused, none is stored. Where the disk fills up
        on the way, those that fitted stay stored; the log's end tells how far it came.

        With ``flush="sync"`` returns when all of them are on disk, whatever they say of ``WAIT``.

        Raises:
            PutError: as for `put`.
            TypeError: no messages.
        """
        return self._writes.put_many(messages)

    def put_batch(self, batch: Message, messages: Sequence[Message] | None = None) -> BatchReceipt:
        """Store a RocketMQ message batch: one queue's messages, expanded from one body.

        Whether it waits for the disk the property ``WAIT`` of ``batch`` says, as in RocketMQ.

        Args:
            batch: topic, queue, host and shared properties; its body is the batch's wire body.
            messages: the messages, where the body is not encoded yet.

        Raises:
            MessageIllegalError: the body is no batch, or the batch has a transaction flag or a
            delay. PutError: as for `put`.
        """
        return self._writes.put_batch(batch, messages)

    def flush(self) -> None:
        """Bring everything to disk: log, plugins' files, their progress, the checkpoint.

        Returns when all that was put and dispatched before is there. Waits for a plugin as long as
        its flush advances. A suspended plugin is not waited for: it has a place of its own.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed.
            PluginFlushError: a plugin does not return; all else is on disk.
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
        """One message by its offset message id, or by the physical offset at which it begins.

        Raises:
            ValueError: no message id.
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
        """Batches over the log, in the order of storing; see `reput.log.LogView.scan`."""
        self._check_open()
        start = None if start is None else whole_number("start", start)
        end = None if end is None else whole_number("end", end)
        return self.log.scan(start, end, check_crc=check_crc)

    def losses(self) -> list[Loss]:
        """What the log has lost, as far as it is known, oldest first; see `reput.log.Loss`.

        In a read-only store also what this opening has found.
        """
        self._check_open()
        return [] if self.log.ledger is None else list(self.log.ledger.entries)

    # ------------------------------------------------------------------ reading queues

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,  # noqa: A002 - the word for it
    ) -> ReadResult:
        """Read messages of one queue from ``queue_offset`` on.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: where to begin; ``next_queue_offset`` of the result is where to go on.
            max_count: most messages to return.
            max_bytes: stop before this many bytes of records; one message is returned even so.
            filter: return only messages that it selects: a condition, or a compiled filter
                (`filter`). A read looks at so many messages and no more; where none of them was
                selected, the status is ``NO_MATCHED_MESSAGE`` and there is more to be read.

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
        return self._reads.read(topic, queue_id, queue_offset, max_count, max_bytes, chosen)

    def filter(
        self, expression: str, kind: str | None = None, *, topic: str | None = None
    ) -> MessageFilter:
        """Compile a filter, to read with.

        Args:
            expression: a condition on properties, or tags: ``"paid || shipped"``.
            kind: its language, as in ``"TAG"``: a word that a plugin knows; the plugin's default
                when left out.
            topic: the topic that is going to be read; a filter that is registered for it finds its
                messages sooner.

        Raises:
            NoReaderError: no active plugin compiles filters of that kind.
            ValueError: no such condition; the text says where it goes wrong.
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
        """Queue offset by store time.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            timestamp: ms.
            boundary: ``"lower"``: the first message at that time or later; ``"upper"``: the last
                at that time or earlier.

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
        """Every queue there is, by topic and queue id.

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
        compat: bool = False,
    ) -> QueryResult:
        """Messages of a topic by key: those whose ``UNIQ_KEY``, or a word of ``KEYS``, it is.

        Only what was dispatched is found, see ``indexed_to`` of the answer and `wait_dispatched`.

        Args:
            topic: the topic's name.
            key: the whole key.
            begin: store time of the oldest message wanted, ms.
            end: store time of the newest message wanted, ms.
            limit: most messages to return; all of them when left out.
            oldest_first: in the order of storing; the newest first when left out.
            after: ``after`` of the answer before, to go on behind it.
            compat: what ``store.plugin("index").query_as_rocketmq`` answers. Deprecated: call that.

        Raises:
            NoReaderError: no active plugin keeps keys.
            ValueError: a limit below 1, or ``compat`` together with an order or a place to go on.
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
        if compat:
            if oldest_first or after is not None:
                raise ValueError("compat goes with neither oldest_first nor after")
            as_rocketmq = query_as_rocketmq(self._active)
            if as_rocketmq is not None:
                return as_rocketmq(**asked)
        return self._reads.query(**asked, oldest_first=oldest_first, after=after, compat=compat)

    # ------------------------------------------------------------------ plugins

    @overload
    def plugin(self, which: type[_Plugin]) -> _Plugin: ...

    @overload
    def plugin(self, which: str) -> Any: ...

    def plugin(self, which: str | type[_Plugin]) -> Any:
        """The object of a plugin that the store uses, for what it offers by itself.

        ``store.plugin("transaction").commit(half)``; type checkers know the methods where the
        plugin is named by its class: ``store.plugin(TransactionPlugin).commit(half)``.

        Raises:
            PluginError: the store does not use it, or it could not be opened.
            StoreClosedError: the store is closed.
            TypeError: neither a name nor a class of plugins.
        """
        self._check_open()
        return self._active.plugin(which)

    @property
    def plugin_objects(self) -> Mapping[str, Any]:
        """The active plugins' objects by name, in dispatch order."""
        return dict(self._active.objects)

    def plugins(self) -> list[PluginState]:
        """State, progress, lag and figures of the active plugins, in dispatch order.

        In a read-only store they are those that the last writer recorded.
        """
        return self._active.states()

    def plan(self) -> list[PlanStep]:
        """Who is given a batch when, and who needs whom, in dispatch order."""
        return self._active.set.plan()

    def add_plugin(self, plugin: str | Plugin, options: Mapping[str, Any] | None = None) -> str:
        """Use one plugin more, from now on and at every later opening; its name.

        It begins at the log's first message, or where it stopped when it was removed, and
        catches up beside the others.

        Args:
            plugin: the name of an installed plugin, or a plugin object.
            options: its section of the configuration.

        Raises:
            PluginError: it is active already, not installed, cannot be ordered or opened.
            ConfigError: a wrong option.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            TypeError: neither a name nor an object; or ``options`` that are no mapping.
        """
        live = self._writing()
        return live.add(plugin_argument("plugin", plugin), table_argument("options", options))

    def remove_plugin(self, plugin: str) -> None:
        """Use a plugin no more, from now on; its files and its progress stay.

        Raises:
            PluginError: it is not active, another one requires it, or it hangs in a call.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().remove(text_argument("plugin", plugin))

    def suspend_plugin(self, plugin: str) -> None:
        """Give a plugin no messages until it is resumed, also after the store was closed.

        Raises:
            PluginError: it is not active.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().suspend(text_argument("plugin", plugin))

    def resume_plugin(self, plugin: str) -> None:
        """Open a plugin anew that was suspended, failed or halted everything; it catches up.

        Raises:
            PluginError: it is not active, hangs in a call, or cannot be opened.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().resume(text_argument("plugin", plugin))

    def dead_letters(self, plugin: str) -> list[DeadLetter]:
        """Messages that a plugin failed on and that its policy ``"skip"`` passed over.

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
            progress: called now and then with bytes dispatched and bytes in all.
            plugins: names of those to wait for; all when left out.

        Returns:
            Whether they have; False after ``timeout``.

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
        """Have the plugins do what is due by the clock, with ``threads=False``: one slice of each.

        Dispatches everything before, and what they put behind it.

        Returns:
            When the next is due, ms; not later than now when there is more to do; None when nobody
            waits for a time. Always None in a store with threads, whose plugins work by
            themselves: there this only wakes them.

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

    def expire_log(
        self, *, dry_run: bool = False, config: RetentionConfig | None = None
    ) -> ExpiryReport:
        """Remove the oldest files of the log that are to go, and have plugins forget them.

        By the store's configuration (section ``retention``) this happens by itself, too. Called
        here it does not wait for the hour that ``delete_when`` names.

        Args:
            dry_run: only say what would go; nothing is changed. The one thing that a store does
                which was opened with ``mode="r"``.
            config: other options than the store's own, for this time.

        Raises:
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
            TypeError: an argument of a wrong type.
        """
        self._check_open()
        dry_run = flag_argument("dry_run", dry_run)
        if config is not None:
            from reput.retention.config import RetentionConfig

            if not isinstance(config, RetentionConfig):
                raise TypeError(f"config: a RetentionConfig expected, found {shown(config)}")
        if not dry_run:
            self._writing()
        return self._expiry.clean(config, dry_run=dry_run)

    def clean_log(
        self, *, dry_run: bool = False, config: RetentionConfig | None = None
    ) -> ExpiryReport:
        """`expire_log`, by the name that it had before 0.2."""
        message = "Store.clean_log is called Store.expire_log now"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.expire_log(dry_run=dry_run, config=config)

    # ------------------------------------------------------------------ telling, closing

    def report(self) -> dict[str, Any]:
        """Facts about the store, JSON-like: log, recovery, plugins."""
        self._check_open()
        return {
            "root": self.root,
            "writable": self.writable,
            "clean": self.clean,
            "log": log_facts(self.log),
            "recovery": recovery_facts(self.recovery),
            "plugins": plugin_facts(self._active),
            "retention": self._expiry.report(),
        }

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closer.is_closed

    def close(self, timeout: float | None = None) -> None:
        """Dispatch and flush everything, then give up files, threads and the lock.

        A second call does nothing, and so does one in a forked child; one on another thread waits
        for the first. Where something could not be flushed or dispatched, the next opening
        recovers as after a crash. May be called from a signal handler, whatever its thread is
        inside of: a put that is under way then is refused, and a close is gone on with. A store
        that is still open when the interpreter ends is closed then (`atexit`).

        Args:
            timeout: seconds to wait for plugins that are behind, which catch up next time; the
                option ``dispatch.close_timeout_ms`` when left out.

        Raises:
            ServiceNotAvailableError: flushing failed; everything is closed all the same. Or another
                thread is closing the store, and has not ended after ``timeout``.
            TypeError: ``timeout`` is no number; the store stays open.
        """
        if is_forked(self):
            return  # asked by way of a method that was bound before: `atexit`, an `ExitStack`
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

    if not TYPE_CHECKING:  # a type checker is to know nothing of these names

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """A method of a plugin, by the name that it had here before 0.2."""
            if name.startswith("_"):
                raise AttributeError(name)  # also while the store is not made yet
            return method_of_plugin(self._active, name)

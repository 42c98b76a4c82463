"""`Store`: the log, its plugins and the threads between them, as one object.

With its two bases, `QueueReads` and `ReplicaCalls`, this class has every method that a user of a
store may call, and what it promises. Other modules do the work: `reput.store.operations.puts` puts,
`reput.dispatch` drives the plugins, `reput.store.closer` closes, and
`reput.store.opening.openstore` puts a store together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, overload

from reput.errors import OffsetOutOfRangeError, PluginError, PluginFlushError
from reput.plugin.base import Plugin
from reput.record.messageids import parse_message_id
from reput.store.operations.arguments import (
    flag_argument,
    function_argument,
    plugin_argument,
    seconds_argument,
    table_argument,
    text_argument,
    whole_number,
)
from reput.store.operations.report import facts_of
from reput.store.processexit import do_not_close_at_exit, is_forked
from reput.store.replicacalls import ReplicaCalls

if TYPE_CHECKING:
    from reput.dispatch.deadletters import DeadLetter
    from reput.dispatch.runtime.pluginstate import PluginState
    from reput.log.losses import Loss
    from reput.log.recovery.endsearch import RecoveryReport
    from reput.log.writer.commitlog import CommitLog
    from reput.log.writer.receipts import BatchReceipt, Receipt
    from reput.plugin.storeaccess import TrimReport
    from reput.record.batch import DispatchBatch
    from reput.record.encoding.batchencoder import Columns
    from reput.record.messages.message import Message
    from reput.record.messageview import MessageView
    from reput.store.closer import Closer
    from reput.store.offeredmethods import OfferedMethods
    from reput.store.operations.puts import DirectPuts
    from reput.store.pluginstore import StoreComponents
else:
    OfferedMethods = object

logger = logging.getLogger(__name__)

_Plugin = TypeVar("_Plugin", bound=Plugin)


class Store(ReplicaCalls, OfferedMethods):
    """An open store. Made by `reput.open`; thread-safe; a context manager that closes itself."""

    def __init__(
        self,
        parts: StoreComponents,
        closer: Closer,
        *,
        recovery: RecoveryReport,
        clean: bool,
        problems: Sequence[str],
    ) -> None:
        super().__init__(parts.active, closer.check_open)
        self.root = parts.root
        """The store's directory."""
        self.writable = parts.writer is not None
        """Whether it was opened with ``mode="w"``."""
        self.clean = clean
        """Whether the last writer had closed the store (false while a writer has it open)."""
        self.log = cast("CommitLog", parts.log)
        """The commit log; see `reput.log.LogView`. In a read-only store it only has what reads."""
        self.config = parts.log.config
        """Options of the commit log."""
        self.recovery = recovery
        """What opening found at the end of the log."""
        self.problems = tuple(problems)
        """Which parts of the store cannot be used, as texts; always empty in a writable store."""
        self._parts = parts
        self._closer = closer
        self._put = parts.writes.put

    def __repr__(self) -> str:
        state = "closed" if self.closed else "writable" if self.writable else "read-only"
        return f"<Store {self.root!r} {state} plugins={sorted(self._active.objects)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ writing

    def put(
        self, message: Message, *, ordered_by: str | int | None = None, wait: bool = True
    ) -> Receipt:
        """Store one message.

        A message without a queue goes to the queue of its topic whose turn it is.

        With ``flush="sync"`` the call returns when the message is on disk, unless the message's
        property ``WAIT`` is ``false``.

        Args:
            message: the message.
            ordered_by: messages with the same key go to the same queue, and so stay in order. The
                queue is the one that RocketMQ's clients choose for the key
                (``SelectMessageQueueByHash``).
            wait: False if several calls are to share one wait for the disk: `Receipt.wait` of the
                last one covers all of them.

        Raises:
            TypeError: ``message`` is no `reput.Message`.
            ValueError: ``ordered_by`` is given, and the message names its queue.
            MessageIllegalError: a field that cannot be stored (`MessageTooLargeError` for sizes).
            PropertiesSizeError: the encoded properties are over 32,767 bytes.
            CreateMappedFileError: no space for another file; nothing was stored.
            ServiceNotAvailableError: the store is closed (`StoreClosedError`) or read-only
                (`ReadOnlyStoreError`), or its disk failed.
            FlushDiskTimeoutError: stored, but not on disk within ``flush_timeout_ms``.
        """
        if ordered_by is not None:
            message = self._parts.writes.in_order(message, ordered_by)
        return self._put(message) if wait else self._parts.writes.put(message, wait=False)

    def put_many(
        self,
        messages: Sequence[Message] | Columns,
        *,
        ordered_by: str | int | Sequence[str | int | None] | None = None,
        whole: bool = False,
        wait: bool = True,
    ) -> BatchReceipt:
        """Store many messages in their order, much faster than one by one.

        All messages are checked first: when one is refused, none is stored. If the disk fills up
        meanwhile, the messages that fitted stay stored: the error's `stored_count` says how many
        of the first messages these are, and its `stored` where they are. Put only the others again.

        With ``flush="sync"`` the call returns when all messages are on disk, whatever their
        properties ``WAIT`` say.

        Args:
            messages: the messages, as objects or as columns.
            ordered_by: as for `put`: one key for all messages, or a key or None for each.
            whole: whether all messages are stored or none, also where the disk fills up. They are
                stored in one log file, whose space is allocated before the first byte is written.
            wait: False if several calls are to share one wait for the disk: `BatchReceipt.wait` of
                the last one covers all of them.

        Raises:
            MessageTooLargeError: ``whole`` is asked for, and no log file has space for them.
            PutError: as for `put`.
            TypeError: ``messages`` are neither messages nor columns.
            ValueError: as for `put`; or there are more keys than messages, or fewer.
        """
        if ordered_by is not None:
            messages = self._parts.writes.all_in_order(messages, ordered_by)
        return self._parts.writes.put_many(messages, whole=whole, wait=wait)

    @property
    def direct_puts(self) -> DirectPuts | None:
        """Which messages go to the log without a call of a plugin; None if a plugin sees all.

        For servers that put messages without an object for each. Another object once the plugins,
        or what they must see, have changed.
        """
        return self._parts.writes.direct

    def flush(self) -> None:
        """Bring everything to disk: log, plugins' files, their progress, the checkpoint.

        Returns when everything that was put and dispatched before the call is on disk. Waits for a
        plugin as long as its flush advances, and not at all for a suspended plugin, whose progress
        stays where it is.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed; or a signal handler calls inside of
                code that must go on first.
            PluginFlushError: a plugin's flush failed or does not return; all else is on disk.
        """
        self._check_open()
        writer = self._parts.writer
        missed = {} if writer is None else writer.members.plugin_flusher.flush()
        if missed:
            name = min(missed)
            others = ", ".join(sorted(missed.keys() - {name}))
            kept = f"all else is on disk{f', but for {others}' if others else ''}"
            next_step = "Flush again later; Store.plugins shows how it goes on"
            reason = f"it could not be flushed: {missed[name]}; {kept}. {next_step}"
            raise PluginFlushError(name, reason)

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
        """Add a plugin to the store, now and at every later opening.

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
            TypeError: ``plugin`` is neither a name nor an object, or ``options`` is not a mapping.
        """
        live = self._writing().members
        return live.add(plugin_argument("plugin", plugin), table_argument("options", options))

    def remove_plugin(self, plugin: str) -> None:
        """Remove a plugin from the store; its files and its progress stay.

        Raises:
            PluginError: it is not active, another one requires it, or it hangs in a call.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().members.remove(text_argument("plugin", plugin))

    def suspend_plugin(self, plugin: str) -> None:
        """Give a plugin no messages until it is resumed; a later opening remembers this.

        Raises:
            PluginError: it is not active.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().members.suspend(text_argument("plugin", plugin))

    def resume_plugin(self, plugin: str) -> None:
        """Open a suspended, failed or halted plugin again, and let it catch up.

        Raises:
            PluginError: it is not active, hangs in a call, or cannot be opened.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().members.resume(text_argument("plugin", plugin))

    def dead_letters(self, plugin: str) -> list[DeadLetter]:
        """Return the messages that a plugin failed on and that its policy ``"skip"`` skipped.

        Raises:
            PluginError: it is not active.
        """
        plugin = text_argument("plugin", plugin)
        self._active.used("plugin", [plugin])
        from reput.dispatch.deadletters import DeadLetterFile

        return DeadLetterFile.of(self.root, plugin, self._parts.disk).read()

    # ------------------------------------------------------------------ dispatching

    def wait_dispatched(
        self,
        timeout: float | None = None,
        progress: Callable[[int, int], None] | None = None,
        plugins: Collection[str] | None = None,
        *,
        raise_suspended: bool = False,
    ) -> bool:
        """Wait until every running plugin has seen all that is in the log now.

        It does not wait for a plugin that gets no messages, such as a suspended one; the log of
        Python then has a warning.

        Args:
            timeout: seconds; None waits as long as it takes.
            progress: called now and then with the bytes dispatched and the bytes in all.
            plugins: names of the plugins to wait for; all when left out.
            raise_suspended: raise `PluginError` in place of the warning.

        Returns:
            True when they have seen it; False after ``timeout``.

        Raises:
            PluginError: the store does not use one of ``plugins``; or, with ``raise_suspended``,
                one of them gets no messages.
            ServiceNotAvailableError: a signal handler calls inside of code that must go on first.
            TypeError: an argument of a wrong type.
        """
        self._check_open()
        timeout = seconds_argument("timeout", timeout)
        progress = function_argument("progress", progress)
        chosen = None if plugins is None else self._active.used("plugins", plugins)
        writer = self._parts.writer
        if writer is None:
            return True
        if self.config.reads_durable:
            writer.log.flusher.flush()  # only flushed records are dispatched
        first, end, report = self.log.min_physical_offset, self.log.max_physical_offset, None
        if progress is not None:
            total = progress

            def report(offset: int) -> None:
                total(max(offset - first, 0), end - first)

        loop = writer.members.loop
        seen = loop.wait(end, timeout, report, chosen)
        for name in loop.stopped_below(end, chosen):
            if raise_suspended:
                raise PluginError(name, "it gets no messages: resume it, or repair what stops it")
            logger.warning("the plugin gets no messages, so waiting ended plugin=%s", name)
        return seen

    def call_on_arrival(self, function: Callable[[DispatchBatch], None]) -> Callable[[], None]:
        """Have a function called with all messages that have come to their queues, from now on.

        It is called on the thread that dispatches, and must neither wait nor raise. It keeps
        nothing of a batch, whose memory is used again.

        Returns:
            A function that ends this.

        Raises:
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        return self._writing().members.loop.feed.watch(function)

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
        members = self._writing().members
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
                until it has, or ``"drop"`` them. Messages unseen by a running plugin are kept.
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
        return self._parts.trim_log(physical_offset, unseen, dry_run=dry_run)

    # ------------------------------------------------------------------ reporting, closing

    def report(self) -> dict[str, Any]:
        """Return facts about log, recovery and plugins, JSON-like."""
        self._check_open()
        found = {"root": self.root, "writable": self.writable, "clean": self.clean}
        return found | facts_of(self.log, self.recovery, self._active)

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
            TypeError: ``timeout`` is not a number; the store stays open.
        """
        if is_forked(self):
            return  # called by a method that was bound before the fork: `atexit`, an `ExitStack`
        self._closer.close(seconds_argument("timeout", timeout))
        do_not_close_at_exit(self)

    if not TYPE_CHECKING:  # a type checker must not know these names

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """Return a method that a plugin offers here; see `reput.Plugin.store_methods`."""
            if name.startswith("_"):
                raise AttributeError(name)  # also while the store is not made yet
            return self._active.method(name)

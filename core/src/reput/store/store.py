"""`Store`: the log, its plugins and the threads between them, as one object.

Composition only: what a record is, how a queue is written, when a flush is due, all that is decided
elsewhere. How a store is put together stands in `reput.store.opening`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from reput.errors import (
    FlushDiskTimeoutError,
    OffsetOutOfRangeError,
    PluginError,
    PluginFlushError,
    ServiceNotAvailableError,
    StoreClosedError,
)
from reput.log.recovery.closed import CloseRecord
from reput.log.writing.receipts import BatchReceipt, Receipt
from reput.plugin.interest import united
from reput.record.encoding.many import Columns, prepare_columns, prepare_messages
from reput.record.encoding.wirebatch import expand_batch
from reput.record.ids import parse_message_id
from reput.record.message import Message, encode_property_text, waits_for_disk
from reput.record.plain import shown, whole_number
from reput.record.plainmessages import listed_messages, plain_message
from reput.retention.planner import RetentionReader
from reput.retention.service import RetentionService
from reput.store.arguments import flag_argument, function_argument, seconds_argument
from reput.store.closing import Closing
from reput.store.exiting import do_not_close_at_exit
from reput.store.facts import StoreFacts
from reput.store.forked import is_forked

if TYPE_CHECKING:
    from reput.dispatch.calls import PluginCalls
    from reput.dispatch.config import DispatchConfig
    from reput.dispatch.members import Members
    from reput.dispatch.records.states import PluginRecords
    from reput.dispatch.runner import PluginRunner
    from reput.files.pool import FilePool
    from reput.log.config import CommitLogConfig
    from reput.log.losses import Loss
    from reput.log.recovery.end import RecoveryReport
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.host.pluginset import PluginSet
    from reput.record.batch import DispatchBatch
    from reput.record.view import MessageView
    from reput.retention.config import RetentionConfig
    from reput.retention.planner import ExpiryReport
    from reput.store.abort import AbortFile
    from reput.store.lock import StoreLock

logger = logging.getLogger(__name__)

__all__ = ["Store"]


class Store(StoreFacts):
    """An open store. Made by `reput.open`; thread-safe; a context manager that closes itself."""

    def __init__(
        self,
        *,
        root: str,
        writable: bool,
        clean: bool,
        log: CommitLog,
        config: CommitLogConfig,
        plugins: PluginSet,
        rules: DispatchConfig,
        dispatchers: Mapping[str, PluginRunner],
        versions: Mapping[str, str],
        calls: PluginCalls,
        records: PluginRecords,
        live: Members | None,
        cleaner: RetentionService | RetentionReader,
        recovery: RecoveryReport,
        problems: Sequence[str],
        pool: FilePool,
        lock: StoreLock | None,
        abort: AbortFile,
        release: Callable[[], None],
    ) -> None:
        self.root = root
        """The store's directory."""
        self.writable = writable
        """Whether it was opened with ``mode="w"``."""
        self.clean = clean
        """Whether its last writer had closed it (a store that is being written has not)."""
        self.log = log
        """The commit log; see `reput.log.LogView`."""
        self.config = config
        """Options of the commit log."""
        self.recovery = recovery
        """What opening found at the end of the log."""
        self.problems = tuple(problems)
        """What of the store cannot be used, in words; always empty in one that is writable."""
        self.retention = cleaner.planner.config
        """Options that say how long messages are kept."""
        self._cleaner = cleaner
        super().__init__(plugins, rules, dispatchers, versions, records, live)
        if isinstance(cleaner, RetentionService):
            cleaner.after_change = lambda: self._use(self._plugins)
        self._calls = calls
        self._pool = pool
        self._lock = lock
        self._abort = abort
        self._release = release
        self._sync = config.flush == "sync"
        self._append = log.append
        self._prepare = log.encoder.prepare
        self._closing = Closing()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "writable" if self.writable else "read-only"
        return f"<Store {self.root!r} {state} plugins={sorted(self._plugins.plugins)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _use(self, plugins: PluginSet) -> None:
        super()._use(plugins)
        if isinstance(self._cleaner, RetentionService) and self._cleaner.is_full:
            # As the first of the plugins, so that puts pay for it only while it is needed.
            self._put_hooks = [("", self._cleaner.refuse), *self._put_hooks]
        self._put_interest = united(self._put_interests.get(name) for name, _ in self._put_hooks)

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
        if self._put_hooks and (
            self._put_interest is None or self._put_interest.covers_message(message)
        ):
            message = self._hooked([message], self._put_hooks)[0]
        prepared = self._prepare(message)
        receipt = self._append(prepared)
        if self._sync and waits_for_disk(prepared[7]):
            self._wait_durable(receipt)
        return receipt

    def put_many(self, messages: Sequence[Message] | Columns) -> BatchReceipt:
        """Store many messages in their order, much faster than one by one.

        All checks come first: when one message is refused, none is stored. Where the disk fills up
        on the way, those that fitted stay stored; the log's end tells how far it came.

        With ``flush="sync"`` returns when all of them are on disk, whatever they say of ``WAIT``.

        Raises:
            PutError: as for `put`.
            TypeError: no messages.
        """
        receipt = self._put_many(messages, self._put_hooks)
        if self._sync and len(receipt):
            self._wait_durable(receipt)
        return receipt

    def put_for(self, plugin: str, messages: Sequence[Message]) -> BatchReceipt:
        """Store messages of a plugin, which itself is not asked about them; waits for no disk.

        Raises:
            PutError: as for `put`.
        """
        hooks = [(name, hook) for name, hook in self._put_hooks if name != plugin]
        return self._put_many(messages, hooks)

    def _put_many(
        self, messages: Sequence[Message] | Columns, hooks: list[tuple[str, Any]]
    ) -> BatchReceipt:
        if not isinstance(messages, Columns):
            messages = listed_messages(messages)
        if hooks and self._concern_a_plugin(messages, hooks):
            listed = messages.to_messages() if isinstance(messages, Columns) else messages
            messages = self._hooked(listed, hooks)
        encoder = self.log.encoder
        if isinstance(messages, Columns):
            prepared = prepare_columns(messages, encoder)
            if prepared is None:
                messages = messages.to_messages()
        else:
            prepared = prepare_messages(messages, encoder)
        if prepared is None:
            return self._put_each(messages)  # type: ignore[arg-type]
        return self.log.append_many(prepared)

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
        if messages is not None:
            import attrs

            from reput.record.encoding.wirebatch import encode_batch

            listed = listed_messages(messages)
            batch = attrs.evolve(plain_message(batch), body=encode_batch(listed))
        batch = plain_message(batch)
        limit = self.config.max_message_size
        if len(batch.body) > limit:
            from reput.errors import MessageTooLargeError

            raise MessageTooLargeError("body", len(batch.body), limit, "bytes of a batch")
        receipt = self._put_many(expand_batch(batch), self._put_hooks)
        if self._sync and len(receipt) and waits_for_disk(encode_property_text(batch)):
            self._wait_durable(receipt)
        return receipt

    def _hooked(
        self, messages: Sequence[Message], hooks: list[tuple[str, Any]]
    ) -> Sequence[Message]:
        # Plugins make keys, paths and texts of what a message says.
        messages = [plain_message(message) for message in messages]
        for name, hook in hooks:
            try:
                changed = hook(messages=messages)
            except (SystemExit, GeneratorExit) as error:
                # An exception is how a plugin refuses a put; this one would end the producer.
                raise PluginError(name, f"reput_put raised {error!r}") from error
            if changed is not None:
                if len(changed) != len(messages):
                    raise PluginError(
                        name,
                        f"reput_put returned {len(changed)} messages for {len(messages)}",
                    )
                messages = changed
        return messages

    def _concern_a_plugin(
        self, messages: Sequence[Message] | Columns, hooks: list[tuple[str, Any]]
    ) -> bool:
        """Whether a plugin may have to see any of these; else columns need not be taken apart."""
        interest = united(self._put_interests.get(name) for name, _ in hooks)
        if interest is None:
            return True
        if isinstance(messages, Columns):
            return interest.covers(messages)
        return any(map(interest.covers_message, messages))

    def _put_each(self, messages: Sequence[Message]) -> BatchReceipt:
        """The way for rows that columns do not hold: IPv6 hosts, light queues, record checksums."""
        prepared = [self._prepare(message) for message in messages]
        return BatchReceipt.of(self.log, self.log.append_each(prepared))

    def _wait_durable(self, receipt: Receipt | BatchReceipt) -> None:
        timeout = self.config.flush_timeout_ms
        if not self.log.wait_flushed(receipt.end_offset, timeout / 1000):
            raise FlushDiskTimeoutError(
                "msg_id", receipt.msg_id, None, f"stored, but not on disk after {timeout} ms"
            )

    def flush(self) -> None:
        """Bring everything to disk: log, plugins' files, their progress, the checkpoint.

        Returns when all that was put and dispatched before is there. Waits for a plugin as long as
        its flush advances. A suspended plugin is not waited for: it has a place of its own.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed.
            PluginFlushError: a plugin does not return; all else is on disk.
        """
        self._check_open()
        if self._live is None:
            return
        missed = self._live.plugin_flusher.flush()
        if missed:
            name = min(missed)
            others = ", ".join(sorted(missed.keys() - {name}))
            raise PluginFlushError(
                name,
                f"it could not be flushed: {missed[name]}; all else is on disk"
                + (f", but for {others}" if others else "")
                + ". Flush again later; Store.plugins shows how it goes on",
            )

    # ------------------------------------------------------------------ reading

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
        chosen = None if plugins is None else self._used("plugins", plugins)
        if self._loop is None:
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

        return self._loop.wait(end, timeout, report, chosen)

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
        workers = self._writing().workers
        if self._calls.threads:
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
        if isinstance(self._cleaner, RetentionReader):
            if not dry_run:
                self._writing()
            return self._cleaner.clean(config)
        return self._cleaner.clean(config, dry_run=dry_run)

    def clean_log(
        self, *, dry_run: bool = False, config: RetentionConfig | None = None
    ) -> ExpiryReport:
        """`expire_log`, by the name that it had before 0.2."""
        message = "Store.clean_log is called Store.expire_log now"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.expire_log(dry_run=dry_run, config=config)

    # ------------------------------------------------------------------ closing

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

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
        timeout = seconds_argument("timeout", timeout)
        refusal = StoreClosedError(self.root)
        seconds = self._rules.close_timeout_ms / 1_000 if timeout is None else timeout
        # In a signal handler that came in the middle of a put, the threads that are waited for
        # below may want the log.
        with self.log.lock_let_go(refusal):
            if not self._closing.run(lambda: self._close(refusal, timeout), seconds):
                raise ServiceNotAvailableError(
                    "store", None, None, f"another thread has not closed it after {seconds:g} s"
                )
        do_not_close_at_exit(self)

    def _close(self, refusal: ServiceNotAvailableError, timeout: float | None) -> None:
        if self._closed:  # by a call that an exception ended before the files were given up
            # A flush that was under way then ends by itself; until then the lock is kept.
            for call in self._calls.running():
                call.wait_while_advancing(self._rules.close_timeout_ms / 1_000)
            self._release()
            return
        if self._live is not None:
            self._live.workers.stop()  # in good order: what they put is dispatched and flushed
        if isinstance(self._cleaner, RetentionService):
            self._cleaner.stop()
        self._closed = True
        try:
            self.log.refuse(refusal)
            if self._live is not None:
                self._finish(self._live, timeout)
        finally:
            try:
                if self._live is not None:
                    self._live.plugin_flusher.end()
                # No hook is called from here on: a thread that comes back late out of one plugin
                # must not go on to another one that is closed.
                self._calls.refuse()
                self._close_plugins()
            finally:
                self._release()

    def _finish(self, live: Members, timeout: float | None) -> None:
        loop, plugin_flusher = live.loop, live.plugin_flusher
        try:
            # The log first: with synchronous flushing nothing beyond it is dispatched. When that
            # fails there is nothing to wait for.
            self.log.flusher.flush()
            # Who is far behind catches up next time.
            loop.finish(self._rules.close_timeout_ms / 1_000 if timeout is None else timeout)
        finally:
            loop.stop()
            plugin_flusher.stop()
        try:
            for name, reason in plugin_flusher.flush().items():
                # The next opening cuts its files to its last progress and derives the rest again.
                logger.error("plugin not flushed plugin=%s reason=%s", name, reason)
            live.close_records()
            disk = self._abort.disk
            CloseRecord.save(self.root, self.log, self.log.last_record_offset, disk)
            # `abort` may go only when somebody wrote the queues, and all of them: RocketMQ does
            # not look again. The close record says for us that the store was closed.
            if plugin_flusher.keeps_queues and live.queues_reach(self.log.max_physical_offset):
                self._abort.remove()
            else:
                self._abort.leave()
        except OSError as error:
            raise ServiceNotAvailableError(
                "store",
                None,
                None,
                f"closing it failed: {error}; the next opening recovers as after a crash",
            ) from error

    def _close_plugins(self) -> None:
        for name, hook in self._plugins.having(lambda hooks: hooks.close):
            hanging = self._calls.running(name)
            if hanging:
                logger.error("plugin hangs and is left plugin=%s hook=%s", name, hanging[0].hook)
                continue
            call = self._calls.start(name, "reput_close", hook, is_last=True)
            if not call.wait_while_advancing(self._rules.close_timeout_ms / 1_000):
                logger.error("plugin does not return from closing plugin=%s", name)
            elif call.error is not None:
                logger.error("plugin failed while closing plugin=%s error=%r", name, call.error)

"""The plugin ``transaction``: its hooks, and its methods for callers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import attrs

import reput
from reput.errors import CorruptFileError, ServiceNotAvailableError
from reput.plugin import PutInterest
from reput_transaction.completion.transactionengine import TransactionEngine, Which
from reput_transaction.config import TransactionConfig
from reput_transaction.halfindex.halfindexstore import HalfIndexStore
from reput_transaction.halfindex.startoffset import first_needed
from reput_transaction.layout import HALF_TOPIC, PROPERTY_TRANSACTIONAL
from reput_transaction.messages.halfmessage import HalfMessage
from reput_transaction.messages.messageforms import is_transactional
from reput_transaction.messages.uniquekeys import UniqueKeys
from reput_transaction.offsets.checkbackoffsets import DIRECTORY as CONFIG_DIRECTORY
from reput_transaction.offsets.checkbackoffsets import CheckBackOffsets

if TYPE_CHECKING:
    from reput.log import Receipt
    from reput.plugin import StoreContext
    from reput.record import DispatchBatch, Message
    from reput_transaction.completion.transaction import Transaction
    from reput_transaction.completion.transactionworker import Check, Checker, TransactionWorker

logger = logging.getLogger(__name__)

DEFAULT_GROUP = "reput"
_HOUR_MS = 3_600_000
_NO_WORK = (False, False, False)


@attrs.frozen(eq=False)
class DanglingPage:
    """Some open half messages, oldest first, and what is known of all of them."""

    halves: tuple[HalfMessage, ...]
    next_at: int | None
    """Physical offset of the next one; None if there is none."""
    open_count: int
    oldest_born_timestamp: int | None
    left_size: int
    """Bytes of the log that are not read yet: they may end transactions, and begin others."""


@attrs.define(eq=False)
class TransactionPlugin(reput.Plugin):
    """Parks transactional messages until they are committed or rolled back, as RocketMQ does.

    A new store uses it only if named: a store that uses it cannot be opened without it.
    """

    name: ClassVar[str] = "transaction"
    config_type: ClassVar[type] = TransactionConfig
    op_batch_interval_ms: ClassVar[int] = 3_000
    """How long a committed message may wait for its op marker (``transactionOpBatchInterval``), in
    addition to the wait for the disk."""
    op_message_size: ClassVar[int] = 4_096
    """Bytes at which an op message is full (``transactionOpMsgMaxSize``)."""
    snapshot_size: ClassVar[int] = 64 << 20
    """Bytes of log between two snapshots of open transactions; an opening reads at most as many."""

    config: TransactionConfig = attrs.field(factory=TransactionConfig)
    checks: dict[str | None, Checker] = attrs.field(init=False, factory=dict)
    """Who is asked, by producer group; see `on_check`."""
    _engine: TransactionEngine | None = attrs.field(init=False, default=None)
    _worker: TransactionWorker | None = attrs.field(init=False, default=None)
    _offsets: CheckBackOffsets | None = attrs.field(init=False, default=None)
    _keys: UniqueKeys = attrs.field(init=False, default=attrs.Factory(lambda: UniqueKeys(_never)))
    _work: tuple[bool, bool, bool] = attrs.field(init=False, default=_NO_WORK)
    """Whether there were markers to write, transactions to finish, and checks to make."""

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Load the offsets that RocketMQ, or this plugin, has saved."""
        before = self._engine
        tracker = HalfIndexStore(context, self.snapshot_size, self.config.max_open)
        engine = TransactionEngine(context, self.config, tracker, self.op_message_size)
        if before is not None and before.context.root == context.root:
            # Opened again after a suspension: half messages of a put in progress stay claimed.
            engine.lock, engine.claims = before.lock, before.claims
            engine.has_acted = before.has_acted
        with engine.lock:
            self._engine = engine
            self._keys = UniqueKeys(context.clock)
            self._worker = None
            if context.writable and not context.replica:  # whose transactions the master ends
                from reput_transaction.completion.transactionworker import TransactionWorker

                self._worker = TransactionWorker(
                    engine, self.config, self.checks, self.op_batch_interval_ms
                )
            self._work = _NO_WORK
        self._offsets = CheckBackOffsets(
            context.directory(CONFIG_DIRECTORY),
            context.disk,
            context.clock,
            note_problem=context.note_problem,
        )
        self._offsets.load()
        engine.noted_half_offset = self._offsets.half_offset or 0

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        """Load the newest snapshot below ``progress``, and return where the log is needed from."""
        engine = self._of_store
        if engine.context.writable and self._offsets is not None:
            self._offsets.finish_replacing(flush=not engine.context.clean)
        with engine.lock:
            # The index must have seen the whole log before anything is ended. After a failed flush
            # the log reaches above `max_physical_offset`, where the files are valid.
            if engine.context.writable:
                engine.known_to = max(max_physical_offset, engine.context.log.max_physical_offset)
            position = engine.tracker.recover(progress)
            # Open transactions are in memory and, now and then, in a snapshot: for a writer the
            # messages after the snapshot must be dispatched again. A reader gets no dispatch, and
            # reads the log when asked; its position is what the last writer recorded.
            return position if engine.context.writable else progress

    @reput.hookimpl
    def reput_ready(self, queue_offsets: Mapping[tuple[str, int], int]) -> None:
        """Forget the check-back offsets, durably, if a power cut has left them beyond the log."""
        engine = self._of_store
        end = queue_offsets.get((HALF_TOPIC, 0), 0)
        if self._offsets is None or engine.noted_half_offset <= end:
            return
        logger.warning(
            "check-back offset counted half messages that the log does not have offset=%d max=%d",
            *(engine.noted_half_offset, end),
        )
        # A lower offset is safe: it only costs reading.
        engine.noted_half_offset = 0
        self._offsets.save(0, 0)

    @property
    def _of_store(self) -> TransactionEngine:
        if self._engine is None:
            raise ServiceNotAvailableError("store", None, None, "it is not open yet")
        return self._engine

    # ------------------------------------------------------------------ writing

    @property
    def put_interest(self) -> PutInterest:
        """Messages that begin a transaction."""
        return PutInterest(frozenset({PROPERTY_TRANSACTIONAL}))

    @reput.hookimpl
    def reput_put(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Park messages that begin a transaction (``TRAN_MSG``) in the half topic."""
        found = [row for row, message in enumerate(messages) if is_transactional(message)]
        if not found:
            return None
        changed = list(messages)
        halves = self._of_store.halves_of(messages[row] for row in found)
        for row, half in zip(found, halves, strict=True):
            changed[row] = half
        return changed

    # ------------------------------------------------------------------ dispatching

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Update which half messages are open."""
        engine = self._of_store
        with engine.lock:
            engine.tracker.take(batch)
            rows = engine.tracker.index.rows
            # One by one: a thread that sleeps until the next check must hear of due markers.
            work = bool(rows.ended), bool(rows.halved), bool(self.checks and rows.open_count)
            is_news = any(has and not had for has, had in zip(work, self._work, strict=True))
            self._work = work
        if is_news:
            engine.context.wake()

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Write snapshots, and save how far RocketMQ's check-back may skip."""
        engine = self._of_store
        with engine.lock:
            fresh = engine.tracker.take_fresh()
        try:
            engine.tracker.write(fresh)
        except BaseException:
            with engine.lock:
                engine.tracker.put_back(fresh)
            raise
        self._save_offsets(engine)

    def _save_offsets(self, engine: TransactionEngine) -> None:
        """Save both offsets if this plugin has ended a transaction: the file is the broker's."""
        offsets = self._offsets
        if offsets is None or not engine.has_acted:
            return
        with engine.lock:
            index = engine.tracker.index
            if engine.context.store.flushed_offset < engine.tracker.dispatched_to:
                return  # the offsets count unflushed records; the next round is soon
            half = max(index.done_below, engine.done_before)
            op = index.ops.offset(half)
            if (offsets.op_offset or 0) <= index.ops.next_offset:
                op = max(op, offsets.op_offset or 0)
        try:
            offsets.save(half, op)
        except OSError as error:
            # RocketMQ then reads more than it must; the plugin need not fail.
            logger.warning("offsets of transactions not written: %s", error)

    # ------------------------------------------------------------------ working

    @reput.hookimpl
    def reput_work(self, now: int) -> int | None:
        """Finish half-done transactions, write op markers, and check open transactions."""
        worker = self._worker
        return worker.work(now) if worker is not None and self.config.automatic else None

    @reput.hookimpl(optionalhook=True)
    def reput_tools_wrong_entries(self) -> Iterator[CorruptFileError]:
        """See `reput_tools.offline.hookspecs.reput_tools_wrong_entries`."""
        return self._of_store.tracker.wrong_snapshots()

    @reput.hookimpl
    def reput_hold(self) -> int | None:
        """Return the oldest half message that is unfinished and not too old to be waited for."""
        engine = self._of_store
        oldest = engine.context.clock() - self.config.keep_hours * _HOUR_MS
        with engine.lock:
            for row in engine.tracker.index.rows.by_place.values():
                if row.born_timestamp >= oldest:
                    return row.physical_offset
        return None

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Forget half messages that the log has lost."""
        engine = self._of_store
        with engine.lock:
            engine.tracker.trim(min_physical_offset)

    # ------------------------------------------------------------------ for callers

    def transaction(self, group: str = DEFAULT_GROUP) -> Transaction:
        """Begin a transaction, whose messages become visible together.

        Use it as ``with plugin.transaction() as tx: tx.put(...)``.

        Args:
            group: the producer group, whose checks are asked if this process dies.
        """
        from reput_transaction.completion.transaction import Transaction

        return Transaction(self._keys.next(), group, self._of_store, self._keys)

    def prepare(self, message: Message, group: str = DEFAULT_GROUP) -> HalfMessage:
        """Store a message that becomes visible with `commit`.

        Raises:
            PutError: as for `reput.Store.put`; also if its commit would be refused.
        """
        from reput_transaction.completion.transaction import as_transactional

        marked = as_transactional(message, group, self._keys)
        return self._of_store.prepare([marked])[0]

    def commit(self, which: Which) -> Receipt:
        """Make a message visible, and the other messages of its `transaction` with it.

        Args:
            which: what `prepare` returned, its transaction id or offset message id, or its physical
                offset.

        Returns:
            The receipt of the message that is now visible; of several, the first.

        Raises:
            UnknownTransactionError: no open transaction has that id.
            TransactionEndedError: it was committed or rolled back before.
            CommitRefusedError: a plugin refuses a message of the transaction: roll it back.
            PutError: as for `reput.Store.put`.
        """
        engine = self._of_store
        half = self._open_half(engine, which)
        halves = engine.together(half)
        places = [each.physical_offset for each in halves]
        receipt = engine.commit(halves)
        return receipt[places.index(half.physical_offset) if len(places) > 1 else 0]

    def rollback(self, which: Which) -> Receipt:
        """Roll back a message and the others of its `transaction`: they never become visible.

        Returns:
            The receipt of the op marker; until the marker is on disk, a power cut may undo it.

        Raises:
            UnknownTransactionError: no open transaction has that id.
            TransactionEndedError: it was committed or rolled back before.
            PutError: as for `reput.Store.put`.
        """
        engine = self._of_store
        return engine.roll_back(engine.together(self._open_half(engine, which)))[0]

    def _open_half(self, engine: TransactionEngine, which: Which) -> HalfMessage:
        engine.check_writable()
        return engine.find(which)

    def dangling(self, *, group: str | None = None, min_age_ms: int = 0) -> list[HalfMessage]:
        """Return half messages that were neither committed nor rolled back, oldest first.

        Args:
            group: only those of this producer group.
            min_age_ms: only those of this age or more.
        """
        engine = self._of_store
        now = engine.context.clock()
        with engine.lock:
            self._begin(engine)
            engine.catch_up(engine.context.log.max_physical_offset)
            rows = engine.open_rows()
        found = [engine.half_at(row.physical_offset) for row in rows]
        return [
            half
            for half in found
            if half is not None
            and group in (None, half.group)
            and (not min_age_ms or half.age_ms(now) >= min_age_ms)
        ]

    def dangling_page(
        self, count: int, has_enough: Callable[[], bool], *, at: int = 0, group: str | None = None
    ) -> DanglingPage:
        """Return some half messages that are open, as far as the log is read within a limit.

        The next call reads on, so that a caller with little time is complete after some calls.

        Args:
            count: half messages to return, at most.
            has_enough: asked after each batch of the log, and after each half message, whether to
                end reading.
            at: a physical offset; half messages before it are not returned.
            group: only those of this producer group, maybe none although there is a next one.
        """
        engine = self._of_store
        with engine.lock:
            self._begin(engine)
            end = engine.context.log.max_physical_offset
            engine.tracker.follow(end, has_enough)
            left = max(end - engine.tracker.dispatched_to, 0)
            rows = engine.open_rows()
        halves: list[HalfMessage] = []
        has_read, next_at = False, None
        for row in rows:
            if row.physical_offset < at:
                continue
            if len(halves) >= count or (has_read and has_enough()):
                next_at = row.physical_offset
                break
            half, has_read = engine.half_at(row.physical_offset), True
            if half is not None and group in (None, half.group):
                halves.append(half)
        oldest = min((row.born_timestamp for row in rows), default=None)
        return DanglingPage(tuple(halves), next_at, len(rows), oldest, left)

    def _begin(self, engine: TransactionEngine) -> None:
        """Begin to follow the log of a store that is only read; call with the lock held."""
        if not engine.context.writable and engine.tracker.is_blank:
            engine.tracker.begin_at(first_needed(engine.context, engine.noted_half_offset))

    def on_check(
        self, check: Check | None, group: str | None = None, *, answers_later: bool = False
    ) -> None:
        """Set ``check`` to be asked what became of transactions that were not ended in time.

        It is called on the plugin's own thread with a half message, some time after that was
        stored, and returns ``"commit"``, ``"rollback"``, or None if it does not know; then it is
        called again, up to `TransactionConfig.check_max` times. Without a check function nothing is
        asked and nothing is put.

        Args:
            check: the function; None removes it.
            group: the producer group of the function; by default it serves all groups without a
                function of their own.
            answers_later: ``check`` passes the question on, and the answer is a call of `commit`
                or `rollback`, at any time. As a broker does, the plugin first puts a copy of the
                half message, which counts the question, and asks about that; what ``check``
                returns is not looked at.
        """
        engine = self._of_store
        engine.check_writable()
        with engine.lock:
            if check is None:
                self.checks.pop(group, None)
            else:
                from reput_transaction.completion.transactionworker import Checker

                self.checks[group] = Checker(check, answers_later)
        engine.context.wake()

    def settle(self) -> int:
        """Write all missing op markers now.

        They are written with some delay in any case. Call this before RocketMQ is given the store:
        RocketMQ recognizes ended transactions by op markers only.

        Returns:
            How many half messages they name.

        Raises:
            PutError: as for `reput.Store.put`.
        """
        engine = self._of_store
        engine.check_writable()
        engine.catch_up(engine.context.log.max_physical_offset)
        rows = engine.unmarked()
        if rows and self._worker is not None:
            self._worker.mark(rows, 0)
        return len(rows)

    # ------------------------------------------------------------------ for people

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return how many transactions are open, and since when."""
        engine = self._of_store
        with engine.lock:
            rows = engine.tracker.index.rows
            open_rows = rows.open_rows()
            return {
                "open_count": len(open_rows),
                "unmarked_count": len(rows.ended),
                "oldest_born_timestamp": min((r.born_timestamp for r in open_rows), default=None),
            }


def _never() -> int:
    return 0

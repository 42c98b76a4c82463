"""`TransactionWorker`: does what is due: half-done transactions, op markers, check-back.

Source: RocketMQ ``TransactionalMessageServiceImpl#check`` and ``TransactionalOpBatchService``.
Different on purpose: an application in this process is asked first, and a half message is copied
only when there was no answer; the messages of one `TransactionPlugin.transaction` share an answer.
One that answers later is asked about the copy, as RocketMQ asks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal

import attrs

from reput_transaction.completion.checkback import CheckBackDecision, verdict_on
from reput_transaction.config import BATCHED
from reput_transaction.errors import TransactionEndedError, TransactionError
from reput_transaction.layout import COMMITTED, OPEN
from reput_transaction.messages.halfmessage import HalfMessage

if TYPE_CHECKING:
    from reput_transaction.completion.transactionengine import TransactionEngine
    from reput_transaction.config import TransactionConfig
    from reput_transaction.halfindex.halfrows import HalfRow

logger = logging.getLogger(__name__)

Answer = Literal["commit", "rollback"] | None
Check = Callable[[HalfMessage], Answer]

_SLICE_SECONDS: Final = 0.1
_FLUSH_SECONDS: Final = 0.1  # how long a slice waits for the disk
_PAUSE_MS: Final = 100  # until the disk is asked again
_SHOWN_MAX: Final = 64  # tracebacks that are logged, one for each place that raises


@attrs.frozen
class Checker:
    """The callback that is asked about the outcome of a transaction."""

    ask: Check
    answers_later: bool = False
    """Whether the answer is no return value, but a commit or a rollback that comes later."""


@attrs.define(eq=False, repr=False)
class TransactionWorker:
    """Does the timed work of one open store; called on one thread at a time."""

    engine: TransactionEngine
    config: TransactionConfig
    checks: dict[str | None, Checker]
    """Who is asked, by producer group; None stands for all other groups."""
    op_batch_interval_ms: int
    _unmarked_since: int | None = None
    _run: Iterator[HalfRow] | None = None
    _run_started: int = 0
    _next_run: int | None = None
    """When the next check-back run begins, ms; None means at once."""
    _shown: set[tuple[type, str, int]] = attrs.field(factory=set, init=False)
    """Kinds of errors of checks, and the lines that raised them, whose traceback was logged."""

    def work(self, now: int) -> int | None:
        """Do what is due, and return when to call again, ms."""
        self.engine.catch_up()
        self._finish_groups()
        due = [self._mark(now), self._check(now)]
        return min((each for each in due if each is not None), default=None)

    # ------------------------------------------------------------------ half-done transactions

    def _finish_groups(self) -> None:
        """End decided transactions that a crash or a full disk left half-done."""
        engine = self.engine
        found = []
        with engine.lock:
            for group in engine.tracker.index.rows.halved.values():
                rows = list(group.rows.values())
                # Halves that a caller is ending now are not half-done.
                if not any(engine.is_claimed(row.physical_offset) for row in rows):
                    offsets = [row.physical_offset for row in rows if row.state == OPEN]
                    found.append((group.decision, offsets))
        for decision, offsets in found:
            halves = [engine.half_at(offset) for offset in offsets]
            self._end([half for half in halves if half is not None], decision == COMMITTED)

    def _end(self, halves: list[HalfMessage], commits: bool) -> None:
        if not halves:
            return
        try:
            if commits:
                self.engine.commit(halves)
            else:
                self.engine.roll_back(halves)
        except TransactionEndedError:
            pass  # a caller ended it first
        except TransactionError as error:
            logger.warning("transaction not ended, it stays open: %s", error)

    # ------------------------------------------------------------------ markers

    def _mark(self, now: int) -> int | None:
        rows = self.engine.unmarked()
        if not rows:
            self._unmarked_since = None
            return None
        if self._unmarked_since is None or self._unmarked_since > now:
            self._unmarked_since = now
        due = self._unmarked_since + self.op_batch_interval_ms
        if now < due and not self._fills_a_message(rows):
            return due
        return self.mark(rows, now if now >= due else due)

    def mark(self, rows: list[HalfRow], due: int) -> int | None:
        """Write the markers of ends that are on disk; return when to try the rest again."""
        store = self.engine.context.store
        if store.flushed_offset < max(row.ended_to for row in rows):
            store.wait_flushed(max(row.ended_to for row in rows), _FLUSH_SECONDS)
        flushed = store.flushed_offset
        ready = [row for row in rows if row.ended_to <= flushed]
        if ready:
            self.engine.mark(ready)
        return None if len(ready) == len(rows) else due + _PAUSE_MS

    def _fills_a_message(self, rows: list[HalfRow]) -> bool:
        if self.config.op_messages != BATCHED:
            return False
        digits = len(str(rows[-1].queue_offset)) + 1
        return len(rows) * digits >= self.engine.op_message_size

    # ------------------------------------------------------------------ check-back

    def _check(self, now: int) -> int | None:
        """Continue a check-back run, or begin the next; do nothing without check functions."""
        if not self.checks:
            self._run = None
            return None
        if self._next_run is not None and self._next_run - now > self.config.check_interval_ms:
            self._next_run = now + self.config.check_interval_ms  # the clock was set back
        if self._run is None:
            if self._next_run is not None and now < self._next_run:
                return self._next_run if self.engine.tracker.index.rows.open_count else None
            self._run_started = now
            self._run = iter(self.engine.open_rows())
        deadline = time.monotonic() + _SLICE_SECONDS
        for row in self._run:
            if not self._check_one(row, now):
                break
            if time.monotonic() > deadline:
                return now
        self._run = None
        self._next_run = self._run_started + self.config.check_interval_ms
        return self._next_run if self.engine.tracker.index.rows.open_count else None

    def _check_one(self, row: HalfRow, now: int) -> bool:
        """Do what is due with one half message; return False to end the run."""
        engine = self.engine
        with engine.lock:
            if row.state != OPEN or engine.is_claimed(row.physical_offset):
                return True  # ended meanwhile
        half = engine.half_at(row.physical_offset)
        if half is None:
            return True  # damaged, or lost with the head of the log
        checker = self.checks.get(half.group, self.checks.get(None))
        if checker is None:
            return True
        verdict = verdict_on(half, now, self._run_started, self.config)
        try:
            if verdict is CheckBackDecision.GIVE_UP:
                logger.warning(
                    "half message given up physical_offset=%d times_checked=%d age_ms=%d",
                    half.physical_offset,
                    half.times_checked,
                    half.age_ms(now),
                )
                engine.give_up(half)
            elif verdict is CheckBackDecision.ASK:
                if checker.answers_later:
                    self._ask_elsewhere(half, checker.ask)
                else:
                    self._ask(half, checker.ask)
        except TransactionEndedError:
            pass  # the application ended it during the check
        except TransactionError as error:
            logger.warning("transaction not ended, it stays open: %s", error)
        return verdict is not CheckBackDecision.STOP

    def _ask_elsewhere(self, half: HalfMessage, check: Check) -> None:
        # The answer names the message that it was asked about, which no copy may replace meanwhile.
        halves = self.engine.together(half)
        places = self.engine.renew(halves)
        asked = [each.physical_offset for each in halves].index(half.physical_offset)
        copy = self.engine.half_at(places[asked])
        if copy is not None:
            self._answer_of(copy, check)

    def _answer_of(self, half: HalfMessage, check: Check) -> object:
        try:
            return check(half)
        except Exception as error:  # an application may raise anything, and then gave no answer
            # Operators need one line for each failure, but the same traceback only once.
            place = _place_of(error)
            is_new = place not in self._shown and len(self._shown) < _SHOWN_MAX
            if is_new:
                self._shown.add(place)
            logger.warning(
                "check failed, asked again later physical_offset=%d error=%r",
                half.physical_offset,
                error,
                exc_info=error if is_new else None,
            )
            return None

    def _ask(self, half: HalfMessage, check: Check) -> None:
        answer = self._answer_of(half, check)
        if answer not in ("commit", "rollback", None):
            logger.warning("check answered %r, which is none of commit, rollback, None", answer)
            answer = None
        halves = self.engine.together(half)
        if answer == "commit":
            self.engine.commit(halves)
        elif answer == "rollback":
            self.engine.roll_back(halves)
        else:
            self.engine.renew(halves)


def _place_of(error: BaseException) -> tuple[type, str, int]:
    """Return the class of an error, and the file and line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error), "", 0
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno

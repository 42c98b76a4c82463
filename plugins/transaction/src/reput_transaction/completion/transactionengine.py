"""`TransactionEngine`: ends transactions and puts messages, for callers and for the clock alike.

The index sees a record some time after its put, when the reput loop gets there. Until then the half
message is *claimed*: no other caller can end it. The claim is dropped when the index has passed the
record that was put.

The order of a commit, and why:

1. with several messages: flush their halves, so that a crash that leaves one of the committed
   messages leaves all that is needed for the rest;
2. put the committed messages, in one append; each points back to its half;
3. when these are on disk, and not before: put the op markers. A marker that survived a crash in
   which its message was lost would lose the transaction.

A crash before step 3 costs nothing: the link in the committed message tells how the half ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import (
    FlushDiskTimeoutError,
    MessageIllegalError,
    PutError,
    ReadOnlyStoreError,
)
from reput.record import check_topic, java_string_hash, parse_message_id
from reput.status import PutStatus
from reput_transaction.config import BATCHED
from reput_transaction.errors import (
    CommitRefusedError,
    TransactionEndedError,
    UnknownTransactionError,
)
from reput_transaction.halfindex.halfindexstore import HalfIndexStore
from reput_transaction.layout import ENDED, HALF_TOPIC, OPEN
from reput_transaction.messages.halfmessage import HalfMessage
from reput_transaction.messages.messageforms import (
    committed_of,
    copy_of,
    final_of,
    given_up,
    half_of,
)
from reput_transaction.messages.opmessages import op_messages

if TYPE_CHECKING:
    from reput.log import BatchReceipt
    from reput.plugin import StoreContext
    from reput.record import Message
    from reput_transaction.config import TransactionConfig
    from reput_transaction.halfindex.halfrows import HalfRow

_UNDER_WAY: Final = (1 << 63) - 1  # end offset of a put that has not returned
_CLAIMS_KEPT: Final = 1_000  # claims that may be over but are not dropped yet
_FLUSH_SECONDS: Final = 5.0  # how long a commit of several waits, in a store whose puts do not wait
_REFUSALS: Final = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
    }
)
"""Of a message that is refused again whenever it is put, and not because of a full disk."""

Which = HalfMessage | str | int
"""A transaction: its half message, an id, or the physical offset of its half message."""


@attrs.define(eq=False, repr=False)
class TransactionEngine:
    """Ends the transactions of one open store. Thread-safe."""

    context: StoreContext
    config: TransactionConfig
    tracker: HalfIndexStore
    op_message_size: int
    lock: threading.RLock = attrs.field(factory=threading.RLock)
    """Held while the index is read or updated; never during a put."""
    claims: dict[int, int] = attrs.field(factory=dict)
    """End offset of the put that ends a half message, by the half's physical offset."""
    _claims_looked_at: int = _CLAIMS_KEPT
    known_to: int = 0
    """Physical offset that the index must have reached before anything is ended."""
    has_acted: bool = False
    """Whether a message was put that ends or replaces a half message."""
    noted_half_offset: int = 0
    """Queue offset below which RocketMQ has finished every half message, according to its file."""

    # ------------------------------------------------------------------ looking

    def catch_up(self, end: int | None = None) -> None:
        """Update the index up to ``end``, or to the log's end at opening if that is greater."""
        with self.lock:
            self.tracker.follow(max(self.known_to, end or 0))

    def is_claimed(self, physical_offset: int) -> bool:
        """Return whether a caller is ending that half message; call with the lock held."""
        return self.claims.get(physical_offset, 0) > self.tracker.dispatched_to

    def _drop_claims(self) -> None:
        # Not each time: while the loop is behind, there are many claims, and all of them stay.
        if len(self.claims) > self._claims_looked_at:
            reached = self.tracker.dispatched_to
            self.claims = {key: end for key, end in self.claims.items() if end > reached}
            self._claims_looked_at = 2 * len(self.claims) + _CLAIMS_KEPT

    def open_rows(self) -> list[HalfRow]:
        """Return open half messages that no caller is ending, oldest first."""
        with self.lock:
            first = self.done_before
            rows = self.tracker.index.rows.open_rows()
            return [row for row in rows if row.queue_offset >= first and self._is_free(row)]

    @property
    def done_before(self) -> int:
        """`noted_half_offset`; 0 if the half queue does not reach so far.

        A power cut may leave it so. A writer forgets such an offset before the first put.
        """
        noted = self.noted_half_offset
        return noted if noted <= self.tracker.index.next_half_offset else 0

    def _is_free(self, row: HalfRow) -> bool:
        return not self.is_claimed(row.physical_offset)

    def half_at(self, physical_offset: int) -> HalfMessage | None:
        """Return the half message at ``physical_offset``; None if it does not exist."""
        record = self.context.log.read_message(physical_offset)
        if record is None or record.topic != HALF_TOPIC or record.transaction:
            return None
        return HalfMessage(record)

    def find(self, which: Which) -> HalfMessage:
        """Return the half message that now stands for a transaction: the newest copy.

        Raises:
            UnknownTransactionError: no open transaction has that id.
        """
        if not isinstance(which, (HalfMessage, str)):
            which = int(which)
        if isinstance(which, HalfMessage):
            offset = which.physical_offset
        elif isinstance(which, int):
            offset = which
        else:
            return self._find_by_id(which)
        with self.lock:
            self.catch_up()
            row = self.tracker.index.rows.by_place.get(offset)
            newest = offset if row is None else row.newest.physical_offset
        if isinstance(which, HalfMessage) and newest == offset:
            return which
        half = self.half_at(newest)
        if half is None:
            raise UnknownTransactionError(str(which), "no half message begins at that offset")
        return half

    def _find_by_id(self, which: str) -> HalfMessage:
        with self.lock:
            for end in (None, self.context.log.max_physical_offset):  # the log only if needed
                self.catch_up(end)
                for row in self.tracker.index.rows.with_key(java_string_hash(which)):
                    half = self.half_at(row.newest.physical_offset)
                    if half is not None and half.transaction_id == which:
                        return half
        try:
            _, offset = parse_message_id(which)
        except ValueError:
            offset = -1
        half = self.half_at(offset) if offset >= 0 else None
        if half is None:
            raise UnknownTransactionError(
                which,
                "no half message that is open has this id; it may have been committed or rolled "
                "back already",
            )
        return self.find(half)

    def together(self, half: HalfMessage) -> list[HalfMessage]:
        """Return the half messages that end with ``half``: all open ones of its transaction."""
        if half.member_of is None:
            return [half]
        with self.lock:
            self.catch_up(half.physical_offset + half.record.size)
            group = self.tracker.index.rows.groups.get(half.member_of)
            rows = [] if group is None else [r for r in group.rows.values() if r.state == OPEN]
        found = [self.half_at(row.physical_offset) for row in rows]
        return [each for each in found if each is not None] or [half]

    # ------------------------------------------------------------------ beginning

    def halves_of(self, messages: Iterable[Message]) -> list[Message]:
        """Return the half messages of ``messages``, as they are put.

        Raises:
            PutError: a message could never be committed, or another plugin refuses it.
        """
        messages = [self._with_queue(message) for message in messages]
        made = [(message, half_of(message)) for message in messages]
        # Other plugins see the real topic only at the commit, when it is too late to refuse.
        self.context.store.check_put([committed_of(*each) for each in made])
        return [half for _, half in made]

    def _with_queue(self, message: Message) -> Message:
        if message.queue_id is not None:
            return message
        check_topic(message.topic)
        return attrs.evolve(message, queue_id=self.context.store.next_queue(message.topic))

    def prepare(self, messages: Iterable[Message]) -> list[HalfMessage]:
        """Put the half messages of ``messages``, which are marked as transactional."""
        self.check_writable()
        receipt = self.context.store.put_many(self.halves_of(messages))
        found = [self.half_at(offset) for offset in receipt.physical_offsets.tolist()]
        halves = [each for each in found if each is not None]
        if len(halves) != len(receipt):
            raise MessageIllegalError(
                "topic", HALF_TOPIC, None, "another plugin has put a half message elsewhere"
            )
        self._wait(receipt)
        return halves

    # ------------------------------------------------------------------ ending

    def commit(self, halves: Sequence[HalfMessage]) -> BatchReceipt:
        """Put the final messages of ``halves``; after a crash, too, all of them or none.

        Raises:
            CommitRefusedError: a plugin refuses a message, whenever it is put.
        """
        self.check_writable()
        finals = [final_of(half) for half in halves]
        claimed = self._claim(halves)
        end = _UNDER_WAY
        try:
            if len(halves) > 1:
                needed = max(half.physical_offset + half.record.size for half in halves)
                self._wait_flushed(needed, self.context.store.flush_timeout or _FLUSH_SECONDS)
            receipt = self.context.store.put_many(finals)
            end = receipt.end_offset
        except PutError as error:
            if error.status not in _REFUSALS or error.stored_count:
                raise
            end = 0  # nothing is in the log, so the halves can be rolled back at once
            raise _refused(error, halves[0]) from error
        finally:
            self._settle(claimed, end)
        self._wait(receipt)
        return receipt

    def roll_back(self, halves: Sequence[HalfMessage]) -> BatchReceipt:
        """Put op markers for ``halves``, so that their messages never become visible."""
        self.check_writable()
        claimed = self._claim(halves)
        end = _UNDER_WAY
        try:
            receipt = self._put_markers([half.queue_offset for half in halves])
            end = receipt.end_offset
        finally:
            self._settle(claimed, end)
        self._wait(receipt)
        return receipt

    def renew(self, halves: Sequence[HalfMessage]) -> list[int]:
        """Replace each half message by a copy with one check more.

        Returns:
            The copies' physical offsets.
        """
        copies = [copy_of(half.record, half.times_checked + 1) for half in halves]
        offsets: list[int] = self._replace(halves, copies).physical_offsets.tolist()
        return offsets

    def give_up(self, half: HalfMessage) -> None:
        """Move a half message to the topic of those given up, where operators can find it."""
        self._replace([half], [given_up(half.record, half.times_checked)])

    def _replace(self, halves: Sequence[HalfMessage], messages: Sequence[Message]) -> BatchReceipt:
        claimed = self._claim(halves)
        end = _UNDER_WAY
        try:
            receipt = self.context.store.put_many(messages)
            end = receipt.end_offset
        finally:
            self._settle(claimed, end)
        return receipt

    # ------------------------------------------------------------------ markers

    def unmarked(self) -> list[HalfRow]:
        """Return ended half messages that lack a marker and are not claimed, oldest first."""
        with self.lock:
            return [row for row in self.tracker.index.rows.ended.values() if self._is_free(row)]

    def mark(self, rows: Sequence[HalfRow]) -> None:
        """Put the op markers of half messages whose end is on disk."""
        claimed = [row.physical_offset for row in rows]
        with self.lock:
            self.claims.update(dict.fromkeys(claimed, _UNDER_WAY))
        end = _UNDER_WAY
        try:
            end = self._put_markers([row.queue_offset for row in rows]).end_offset
        finally:
            self._settle(claimed, end)

    def _put_markers(self, queue_offsets: Sequence[int]) -> BatchReceipt:
        batched = self.config.op_messages == BATCHED
        size = self.op_message_size
        messages = op_messages(queue_offsets, batched=batched, body_size=size)
        return self.context.store.put_many(messages)

    # ------------------------------------------------------------------ claims and waiting

    def _claim(self, halves: Sequence[HalfMessage]) -> list[int]:
        """Claim ``halves``, so that no other caller can end them.

        Raises:
            TransactionEndedError: one of them is ended, or is being ended.
        """
        with self.lock:
            self.catch_up()
            for half in halves:
                self._check_open(half)
            claimed = [half.physical_offset for half in halves]
            self.claims.update(dict.fromkeys(claimed, _UNDER_WAY))
            return claimed

    def _check_open(self, half: HalfMessage) -> None:
        offset = half.physical_offset
        row = self.tracker.index.rows.by_place.get(offset)
        if self.is_claimed(offset):
            reason = "it is just being ended"
        elif row is None:
            if offset >= self.tracker.dispatched_to:
                return  # put a moment ago and not dispatched yet
            reason = "it was ended before"
        elif row.state == OPEN:
            return
        elif row.state == ENDED:
            reason = "it was ended before"
        else:
            reason = "a check has put a copy in its place; name it by its id"
        raise TransactionEndedError(half.transaction_id, offset, reason)

    def _settle(self, claimed: Sequence[int], end: int) -> None:
        if end == _UNDER_WAY:
            # The put failed; a part of it may be in the log, and that part counts.
            end = self.context.log.max_physical_offset
        with self.lock:
            self.has_acted = True
            self.claims.update(dict.fromkeys(claimed, end))
            self._drop_claims()

    def _wait(self, receipt: BatchReceipt) -> None:
        """Wait for the disk as long as a put does."""
        seconds = self.context.store.flush_timeout
        if seconds:
            self._wait_flushed(receipt.end_offset, seconds)

    def _wait_flushed(self, physical_offset: int, seconds: float) -> None:
        if not self.context.store.wait_flushed(physical_offset, seconds):
            raise FlushDiskTimeoutError(
                "physical_offset", physical_offset, None, f"not on disk after {seconds:g} s"
            )

    def check_writable(self) -> None:
        """Refuse a store that is open for reading only."""
        if not self.context.writable:
            raise ReadOnlyStoreError(
                "store", None, None, 'it was opened with mode="r"; open it with mode="w"'
            )


def _refused(error: PutError, half: HalfMessage) -> CommitRefusedError:
    facts = (error.field, error.value, error.limit, error.reason)
    refused = CommitRefusedError(*facts, half.transaction_id)
    refused.status = error.status
    return refused

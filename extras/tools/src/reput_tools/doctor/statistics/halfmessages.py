"""Transactions in the log: half messages, the op messages that end them, and transaction bits.

Source: RocketMQ ``TransactionalMessageBridge``: an op message with the tag ``d`` in the op topic
names in its body the queue offsets of half messages that are finished, with commas between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record.layout import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKING_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Consumer group whose offset in the half topic tells below which all transactions are finished."""

ROWS_MAX: Final = 1 << 20
"""Rows that are kept before those that match are dropped."""
_TAG_D: Final = ord("d")  # the Java hash of "d"
_DIGITS_MAX: Final = 18  # more do not fit into 63 bits for certain


@attrs.define(eq=False)
class HalfMessages:
    """What one reading has seen of transactions; columns in pieces."""

    halves: list[npt.NDArray[np.int64]] = attrs.field(factory=list)
    """``(n, 4)``: queue id, queue offset, physical offset, store time (ms) of half messages."""
    ended: list[npt.NDArray[np.int64]] = attrs.field(factory=list)
    """``(n, 2)``: queue id, queue offset of half messages that op messages name."""
    prepared: list[npt.NDArray[np.int64]] = attrs.field(factory=list)
    """``(n, 2)``: physical offset, store time of records with the bit "prepared"."""
    answered: list[npt.NDArray[np.int64]] = attrs.field(factory=list)
    """``(n,)``: physical offsets that records with the bits of commit or rollback refer to."""
    half_count: int = 0
    """Half messages, with those that were ended."""
    kinds: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(4, np.int64))
    """Records without transaction bits, prepared, committed, rolled back."""
    unread_ops: int = 0
    """Words in bodies of op messages that are no queue offsets."""
    rows_max: int = ROWS_MAX
    _settled: int = 0
    """Rows that were left when what matches was dropped last."""

    def add(
        self,
        batch: DispatchBatch,
        is_half: npt.NDArray[np.bool_] | None,
        is_op: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Add a batch; the two masks, ``(n,)``, are None where no row is of that topic."""
        transaction = batch.sys_flag & TRANSACTION_MASK
        if transaction.any():
            self._add_bits(batch, transaction)
        else:
            self.kinds[0] += len(batch)
        if is_half is not None:
            rows = np.flatnonzero(is_half)
            names = ("queue_id", "queue_offset", "physical_offset", "store_timestamp")
            self.half_count += len(rows)
            self.halves.append(
                np.stack([batch.column(name)[rows].astype(np.int64) for name in names], axis=1)
            )
        if is_op is not None:
            rows = np.flatnonzero(is_op & (batch.tags_code == _TAG_D))
            self._add_ops(batch, rows)
        self._settle()

    def take(self, other: HalfMessages) -> None:
        """Take what another reading has seen."""
        self.halves += other.halves
        self.ended += other.ended
        self.prepared += other.prepared
        self.answered += other.answered
        self.half_count += other.half_count
        self.kinds += other.kinds
        self.unread_ops += other.unread_ops
        self._settle()

    def _add_bits(self, batch: DispatchBatch, transaction: npt.NDArray[np.int32]) -> None:
        self.kinds += np.bincount(transaction >> 2, minlength=4)
        rows = np.flatnonzero(transaction == TRANSACTION_PREPARED)
        columns = (batch.physical_offset[rows], batch.store_timestamp[rows])
        self.prepared.append(np.stack(columns, axis=1))
        is_end = (transaction == TRANSACTION_COMMIT) | (transaction == TRANSACTION_ROLLBACK)
        self.answered.append(batch.column("prepared_transaction_offset")[is_end])

    def _add_ops(self, batch: DispatchBatch, rows: npt.NDArray[np.int64]) -> None:
        body, window = batch.body, batch.window
        found: list[bytes] = []
        counts: list[int] = []
        for start, size in zip(body.starts[rows].tolist(), body.sizes[rows].tolist(), strict=True):
            words = window[start : start + size].tobytes().split(b",")
            sound = [word for word in words if word.isdigit() and len(word) <= _DIGITS_MAX]
            self.unread_ops += sum(1 for word in words if word) - len(sound)
            found += sound
            counts.append(len(sound))
        if found:
            queue_id = np.repeat(batch.queue_id[rows].astype(np.int64), counts)
            offsets = np.array(found, np.bytes_).astype(np.int64)
            self.ended.append(np.stack([queue_id, offsets], axis=1))

    def _settle(self) -> None:
        """Drop what matches, once there is much of it, so that what is left is what is open."""
        columns = (self.halves, self.ended, self.prepared, self.answered)
        count = sum(len(piece) for pieces in columns for piece in pieces)
        if count < max(self.rows_max, 2 * self._settled):
            return
        halves, ended = _rows(self.halves, 4), _rows(self.ended, 2)
        prepared, answered = _rows(self.prepared, 2), _column(self.answered)
        is_open = ~(_among(halves[:, :2], ended) | np.isin(halves[:, 2], answered))
        self.ended = [ended[~_among(ended, halves[:, :2])]]
        known = np.concatenate([halves[:, 2], prepared[:, 0]])
        self.answered = [answered[~np.isin(answered, known)]]
        self.halves = [halves[is_open]]
        self.prepared = [prepared[~np.isin(prepared[:, 0], answered)]]
        self._settled = sum(
            len(each[0]) for each in (self.halves, self.ended, self.prepared, self.answered)
        )


def dangling(
    seen: HalfMessages, finished_below: dict[int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return half messages that nothing ended, and prepared records without an end.

    A committed message says which half message it was; the op message may follow later, or may have
    been lost, after which RocketMQ asks the producer again.

    Args:
        seen: what all readings have seen.
        finished_below: by queue id of the half topic, the queue offset below which all are
            finished.

    Returns:
        ``(n, 4)`` rows of `HalfMessages.halves`, and ``(m, 2)`` rows of `HalfMessages.prepared`,
        both in the order of the log.
    """
    halves, ended = _rows(seen.halves, 4), _rows(seen.ended, 2)
    prepared, answered = _rows(seen.prepared, 2), _column(seen.answered)
    is_open = ~(_among(halves[:, :2], ended) | np.isin(halves[:, 2], answered))
    for queue_id, offset in finished_below.items():
        is_open &= (halves[:, 0] != queue_id) | (halves[:, 1] >= offset)
    waiting = prepared[~np.isin(prepared[:, 0], answered)]
    return _ordered(halves[is_open], 2), _ordered(waiting, 0)


def _among(rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which ``(n, 2)`` rows are among others, ``(m, 2)``."""
    if not (len(rows) and len(others)):
        return np.zeros(len(rows), np.bool_)
    both = np.concatenate([rows, others])
    order = np.lexsort((both[:, 1], both[:, 0]))
    is_new = np.concatenate([[True], (both[order][1:] != both[order][:-1]).any(axis=1)])
    numbers = np.empty(len(both), np.int64)
    numbers[order] = np.cumsum(is_new)
    found: npt.NDArray[np.bool_] = np.isin(numbers[: len(rows)], numbers[len(rows) :])
    return found


def _rows(pieces: list[npt.NDArray[np.int64]], width: int) -> npt.NDArray[np.int64]:
    return np.concatenate([*pieces, np.zeros((0, width), np.int64)])


def _column(pieces: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([*pieces, np.zeros(0, np.int64)])


def _ordered(rows: npt.NDArray[np.int64], column: int) -> npt.NDArray[np.int64]:
    return rows[np.argsort(rows[:, column], kind="stable")]

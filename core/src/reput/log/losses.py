"""`Damage`: bytes of the log that hold no valid record; `Loss`: damage and its repair; the ledger.

The ledger is a value of ``reput/state``: one JSON object a line, oldest first. An entry is written,
marked as pending, before the log's bytes are changed; the mark is removed when all changes are on
disk. So the next opening finishes what a crash interrupted, and finds the entry instead of adding
another.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.files.filenames import is_safe_name
from reput.files.jsonfiles import object_of, structure_of
from reput.record.batch import Corruption, CorruptionKind
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.log.statefile import StateFile

logger = logging.getLogger(__name__)

FILLED: Final = "filled"
CUT: Final = "cut"
SKIPPED: Final = "skipped"
GONE: Final = "GONE"
"""Reason of a loss whose bytes the log no longer has: a plugin's files knew of the messages."""


@attrs.frozen
class Damage:
    """Bytes of the log, ``[start_offset, end_offset)``, whose records cannot be read any more."""

    start_offset: int
    """Physical offset at which the damage begins, where a record began."""
    end_offset: int
    """Physical offset of the next sound record, or the end of what is damaged."""
    reason: str
    """Name of a `reput.record.CorruptionKind`. Of a `Loss` also ``"cut"`` if the bytes were not
    examined, `GONE` if the log did not have them any more."""
    detail: str = ""
    """Found and expected, for people."""
    topic: str | None = None
    """Topic of the first record lost, None if its header is unreadable; likewise the next two."""
    queue_id: int | None = None
    queue_offset: int | None = None
    store_timestamp: int = attrs.field(default=0, kw_only=True)
    """Store time of the record before, or else of the record after it, ms; 0 if not known."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end_offset - self.start_offset

    @property
    def finding(self) -> Corruption:
        """What a decoder would report at its start."""
        return Corruption(self.start_offset, CorruptionKind[self.reason], self.detail)


@attrs.frozen
class Loss(Damage):
    """Damage, what was done about it, and what was kept."""

    action: str = SKIPPED
    """``"filled"`` (filler records replace the bytes), ``"cut"`` (the log was cut there) or
    ``"skipped"`` (the bytes are left, and readers skip them)."""
    kept: str = ""
    """Name of the copy in ``reput/lost+found``; empty if there is none."""
    timestamp: int = 0
    """When the loss was noticed, ms."""
    queue_end_offset: int | None = None
    """Queue offset after the last message lost, if all were of one queue; else None."""
    keys: str = ""
    """Keys of the first message lost, with spaces in between, where its properties have them."""

    @classmethod
    def of(cls, damage: Damage, action: str = SKIPPED) -> Loss:
        """Return the loss that ``damage`` is once ``action`` was taken."""
        return cls(**{each.name: getattr(damage, each.name) for each in _FIELDS}, action=action)


_FIELDS: Final = attrs.fields(Damage)


LOSSES: Final = ".losses"
"""Name of the value."""
_PENDING: Final = "pending"


class LossLedger:
    """The losses of one store, oldest first. Thread-safe."""

    def __init__(self, state: StateFile, clock: Callable[[], int]) -> None:
        self.state = state
        """Has the entries."""
        self.writable = False
        """Whether new entries are written to the file; if false, they are kept in memory."""
        self._clock = clock
        self._lock = new_lock()  # reentrant, for signal handlers
        self.entries: tuple[Loss, ...] = ()
        """All losses, oldest first; replaced whole, so that readers need no lock."""
        self.pending: frozenset[Loss] = frozenset()
        """Losses for which the change of the log's bytes may not have been completed."""

    def load(self, *, writable: bool) -> None:
        """Read the entries, as the state file was read last."""
        self.writable = writable
        entries, pending = [], set()
        for line in self.state.value(LOSSES).splitlines():
            read = _parse(line)
            if read is None:
                logger.warning("loss that cannot be read ignored line=%.200r", line)
                continue
            loss, is_pending = read
            entries.append(loss)
            if is_pending:
                pending.add(loss)
        self.entries, self.pending = tuple(entries), frozenset(pending)

    def between(self, start: int, end: int) -> tuple[Loss, ...]:
        """Return the losses that overlap ``[start, end)``."""
        return tuple(
            loss for loss in self.entries if loss.start_offset < end and start < loss.end_offset
        )

    def begin(self, losses: Sequence[Loss]) -> list[Loss]:
        """Note ``losses`` that are about to be filled or cut; on disk when this returns.

        Returns:
            One entry for each of ``losses``; the older one if an interrupted opening has noted it
            already.
        """
        with self._lock:
            known = [self.interrupted(loss) or self._dated(loss) for loss in losses]
            fresh = [loss for loss in dict.fromkeys(known) if loss not in self.pending]
            if fresh:
                # Entries of skipped bytes that are now filled or cut are replaced.
                kept = [
                    other
                    for other in self.entries
                    if other.action != SKIPPED or not any(_covers(loss, other) for loss in fresh)
                ]
                self._save((*kept, *fresh), self.pending.union(fresh))
        return known

    def finish(self) -> None:
        """Note that all pending changes are on disk."""
        with self._lock:
            if self.pending:
                self._save(self.entries, frozenset())

    def note(self, loss: Loss) -> bool:
        """Note a loss whose bytes are skipped and not changed; False if it is known already."""
        with self._lock:
            known = (other for other in self.entries if other.action != CUT)
            if loss.reason != GONE and any(_covers(other, loss) for other in known):
                return False
            if any(_is_recorded(other, loss) for other in self.entries):
                return False
            self._add(self._dated(loss))
            return True

    def take_over(self, losses: Sequence[Loss]) -> None:
        """Write entries of another store's ledger, unless there are some."""
        if losses and not self.entries:
            self._save(tuple(losses), frozenset())

    def cut_was_begun_at(self, offset: int) -> bool:
        """Whether an interrupted opening was cutting the log at ``offset``."""
        return any(loss.action == CUT and loss.start_offset == offset for loss in self.pending)

    def interrupted(self, loss: Loss) -> Loss | None:
        """Return the pending entry that covers ``loss``; an interrupted opening began it."""
        for other in self.pending:
            if other.action == loss.action and _covers(other, loss):
                return other
        return None

    def _dated(self, loss: Loss) -> Loss:
        return attrs.evolve(loss, timestamp=self._clock())

    def _save(self, entries: tuple[Loss, ...], pending: frozenset[Loss]) -> None:
        if self.writable:
            lines = [_line(loss, is_pending=loss in pending) for loss in entries]
            self.state.note({LOSSES: "".join(lines).encode()})
        self.entries, self.pending = entries, pending

    def _add(self, loss: Loss) -> None:
        if self.writable:
            self.state.note({LOSSES: _line(loss, is_pending=False).encode()}, adds=True)
        self.entries = (*self.entries, loss)


def _is_recorded(loss: Loss, other: Loss) -> bool:
    """Whether the entry ``loss`` already says all that ``other`` would."""
    if attrs.evolve(loss, timestamp=0) == other:
        return True  # an opening was interrupted before it cut
    # Recovery of the log's torn end and a queue's file may both report the same message.
    is_one = None not in (other.queue_offset, other.queue_end_offset)
    is_one = is_one and other.queue_offset + 1 == other.queue_end_offset  # type: ignore[operator]
    place = (loss.topic, loss.queue_id, loss.queue_offset)
    same = place == (other.topic, other.queue_id, other.queue_offset)
    return is_one and same and loss.action == other.action and _covers(loss, other)


def _covers(loss: Loss, other: Loss) -> bool:
    return loss.start_offset <= other.start_offset and other.end_offset <= loss.end_offset


def _line(loss: Loss, *, is_pending: bool) -> str:
    facts: dict[str, Any] = attrs.asdict(loss)
    if is_pending:
        facts[_PENDING] = True
    return json.dumps(facts) + "\n"


def _parse(line: bytes) -> tuple[Loss, bool] | None:
    try:
        facts = object_of(line)
        loss = structure_of(Loss, facts)
    except ValueError:
        return None
    is_valid = 0 <= loss.start_offset <= loss.end_offset
    # The name becomes a path, which must not leave the directory of copies.
    is_valid = is_valid and (not loss.kept or is_safe_name(loss.kept))
    return (loss, bool(facts.get(_PENDING))) if is_valid else None

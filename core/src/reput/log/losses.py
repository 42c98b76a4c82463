"""``<store>/reput/losses.jsonl``: what the log has lost, and what became of it.

One JSON object a line, oldest first; the file is replaced whole. An entry is written before the
bytes are changed, marked as pending; the mark goes when all of the change is on disk. So an opening
that a crash interrupts is finished by the next one, which finds the entry there and makes no
second one of it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.files.mapped import unused_path
from reput.files.names import OWN_DIRECTORY, is_safe_name
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.files.disk import Disk

logger = logging.getLogger(__name__)

__all__ = ["CUT", "FILLED", "GONE", "SKIPPED", "Loss", "LossLedger"]

FILLED: Final = "filled"
CUT: Final = "cut"
SKIPPED: Final = "skipped"
GONE: Final = "GONE"
"""Reason of an entry whose bytes the log does not have: a queue knew of the messages."""
_NAME: Final = "losses.jsonl"
_PENDING: Final = "pending"


@attrs.frozen
class Loss:
    """Bytes of the log, ``[start_offset, end_offset)``, whose records nobody can read any more."""

    start_offset: int
    """Physical offset at which the damage begins, where a record began."""
    end_offset: int
    """Physical offset of the next sound record, or the end of what was cut."""
    reason: str
    """Name of a `reput.record.CorruptionKind`; ``"cut"`` where what stood there was not looked at,
    `GONE` where nothing stood there any more."""
    detail: str = ""
    """Found and expected, for people."""
    topic: str | None = None
    """Topic of the first record lost, where its header still tells; None where it does not."""
    queue_id: int | None = None
    queue_offset: int | None = None
    action: str = SKIPPED
    """``"filled"`` (records that say so stand there now), ``"cut"`` (the log ended there) or
    ``"skipped"`` (left as it was, and passed over)."""
    kept: str = ""
    """Name of the copy in ``reput/lost+found``; empty where there is none."""
    timestamp: int = 0
    """When it was noticed, ms."""
    queue_end_offset: int | None = None
    """Queue offset behind the last message lost, where all of them are of one queue; else None."""

    @property
    def size(self) -> int:
        """Bytes lost."""
        return self.end_offset - self.start_offset


class LossLedger:
    """The losses of one store, oldest first. Thread-safe."""

    def __init__(self, root: str, disk: Disk, clock: Callable[[], int]) -> None:
        self.path = os.path.join(root, OWN_DIRECTORY, _NAME)
        self.writable = False
        """Whether what is noted is written; else it is only remembered."""
        self.damaged_count = 0
        """Lines of the file that could not be read; 1 where it has none."""
        self._disk = disk
        self._clock = clock
        self._lock = new_lock()  # a signal handler may come in again
        self._entries: tuple[Loss, ...] = ()  # replaced whole, so that readers need no lock
        self._pending: frozenset[Loss] = frozenset()

    @property
    def entries(self) -> tuple[Loss, ...]:
        """All losses, oldest first."""
        return self._entries

    @property
    def pending(self) -> frozenset[Loss]:
        """Those whose bytes may not have been changed yet as the entry says."""
        return self._pending

    def load(self, *, writable: bool) -> None:
        """Read the file. Lines that are damaged are passed over; a writer keeps the file aside."""
        self.writable = writable
        if not self._disk.exists(self.path):
            return
        data = self._disk.read_file(self.path)
        # A ledger without a line is never written: somebody has emptied it.
        entries, pending, damaged = [], set(), 0 if data else 1
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            read = _parse(line)
            if read is None:
                damaged += 1
                continue
            loss, is_pending = read
            entries.append(loss)
            if is_pending:
                pending.add(loss)
        self._entries, self._pending = tuple(entries), frozenset(pending)
        self.damaged_count = damaged
        if damaged:
            self._set_aside(damaged)

    def _set_aside(self, damaged: int) -> None:
        logger.warning(
            "damaged loss ledger file=%s damaged_lines=%d; the other lines are used",
            self.path,
            damaged,
        )
        if not self.writable:
            return
        directory = os.path.dirname(self.path)
        # A copy, and the good lines in its place: a crash in between leaves the ledger as it was.
        kept = unused_path(self._disk, directory, f"{_NAME}.damaged")
        self._disk.replace(kept, self._disk.read_file(self.path))
        self._save(self._entries, self._pending)

    def between(self, start: int, end: int) -> tuple[Loss, ...]:
        """Losses that have bytes in ``[start, end)``."""
        entries = self._entries
        if not entries:
            return ()
        return tuple(
            loss for loss in entries if loss.start_offset < end and start < loss.end_offset
        )

    def begin(self, losses: Sequence[Loss]) -> list[Loss]:
        """Note what is about to be filled or cut; on disk when this returns.

        Returns:
            One entry for each of ``losses``: the older one where an interrupted opening has noted
            it already.
        """
        with self._lock:
            known = [self.interrupted(loss) or self._dated(loss) for loss in losses]
            fresh = [loss for loss in dict.fromkeys(known) if loss not in self._pending]
            if fresh:
                # What was passed over until now is one loss with what becomes of it.
                kept = [
                    other
                    for other in self._entries
                    if other.action != SKIPPED or not any(_covers(loss, other) for loss in fresh)
                ]
                self._save((*kept, *fresh), self._pending.union(fresh))
        return known

    def finish(self) -> None:
        """Note that all of the changes are on disk."""
        with self._lock:
            if self._pending:
                self._save(self._entries, frozenset())

    def note(self, loss: Loss) -> bool:
        """Note what is passed over and stays as it is; False where it is known already."""
        with self._lock:
            known = (other for other in self._entries if other.action != CUT)
            if loss.reason != GONE and any(_covers(other, loss) for other in known):
                return False
            if any(_tells(other, loss) for other in self._entries):
                return False
            self._save((*self._entries, self._dated(loss)), self._pending)
            return True

    def cut_was_begun_at(self, offset: int) -> bool:
        """Whether an interrupted opening was cutting the log there, whatever stood behind."""
        return any(loss.action == CUT and loss.start_offset == offset for loss in self._pending)

    def interrupted(self, loss: Loss) -> Loss | None:
        """The pending entry of which ``loss`` is the same, or what is left of it."""
        for other in self._pending:
            if other.action == loss.action and _covers(other, loss):
                return other
        return None

    def _dated(self, loss: Loss) -> Loss:
        return attrs.evolve(loss, timestamp=self._clock())

    def _save(self, entries: tuple[Loss, ...], pending: frozenset[Loss]) -> None:
        if self.writable and entries:
            lines = [_line(loss, is_pending=loss in pending) for loss in entries]
            self._disk.replace(self.path, "".join(lines).encode())
        elif self.writable:
            self._disk.remove(self.path)
            self._disk.flush_directory(os.path.dirname(self.path))
        self._entries, self._pending = entries, pending


def _tells(loss: Loss, other: Loss) -> bool:
    """Whether an entry says all that another one would."""
    if attrs.evolve(loss, timestamp=0) == other:
        return True  # of an opening that was interrupted before it cut
    # The log's torn end and the queue that led to it know of the same message.
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
        facts = json.loads(line)
        is_pending = bool(facts.pop(_PENDING, False))
        # What a later release adds is passed over.
        names = {field.name for field in attrs.fields(Loss)}
        loss = Loss(**{name: value for name, value in facts.items() if name in names})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return (loss, is_pending) if _is_sound(loss) else None


def _is_sound(loss: Loss) -> bool:
    def fits(value: object, kind: type, *, optional: bool = False) -> bool:
        return (value is None and optional) or (
            isinstance(value, kind) and not isinstance(value, bool)
        )

    texts = (loss.reason, loss.detail, loss.action, loss.kept)
    numbers = (loss.start_offset, loss.end_offset, loss.timestamp)
    return (
        all(fits(value, str) for value in texts)
        and all(fits(value, int) for value in numbers)
        and fits(loss.topic, str, optional=True)
        and fits(loss.queue_id, int, optional=True)
        and fits(loss.queue_offset, int, optional=True)
        and fits(loss.queue_end_offset, int, optional=True)
        and 0 <= loss.start_offset <= loss.end_offset
        # It becomes a path: nothing may lead out of the directory of copies.
        and (not loss.kept or is_safe_name(loss.kept))
    )

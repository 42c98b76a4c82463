"""`Damage`: bytes of the log that hold no sound record; `Loss`: what became of such bytes."""

from __future__ import annotations

from typing import Final

import attrs

from reput.record.batch import Corruption, CorruptionKind

__all__ = ["CUT", "FILLED", "GONE", "SKIPPED", "Damage", "Loss"]

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

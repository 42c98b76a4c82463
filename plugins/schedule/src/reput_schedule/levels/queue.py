"""`LevelQueue`: how far one delay level came, and when its next message is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.record import MessageView

__all__ = ["LevelQueue"]


@attrs.define(eq=False)
class LevelQueue:
    """One queue of the schedule topic. Belongs to the thread that works."""

    level: int
    delay_ms: int
    offset: int
    """Queue offset of the next message to deliver."""
    due: int | None = None
    """When that one is due, ms; None where it was not looked at, or there is none."""
    is_known: bool = False
    """Whether `due` says how it is."""
    is_behind: bool = False
    """Whether the queue does not reach as far as was delivered: it is being made anew."""
    hold_offset: int | None = 0
    """Physical offset below which nothing is needed any more; None while nothing waits."""
    delivered_ahead: set[int] = attrs.field(factory=set)
    """Queue offsets above `offset` that were delivered: a crash took the copy of one in front of
    them, which has to come again."""
    _ahead_due: int = 0
    _ahead_limit: int = -1

    def forget(self) -> None:
        """Have the next message looked at again."""
        self.due, self.is_known, self.is_behind = None, False, False

    def move_to(self, offset: int) -> None:
        """Go on at ``offset``, or at the first place from there on that was not delivered."""
        while offset in self.delivered_ahead:
            offset += 1
        self.offset = offset
        if self.delivered_ahead:
            self.delivered_ahead = {place for place in self.delivered_ahead if place > offset}

    def due_of(self, view: MessageView, queue_offset: int, now: int, max_offset: int) -> int:
        """When a message is due, ms.

        One that was stored later than now was stored by a clock that was ahead. What it says would
        keep the level waiting for as long as the clock was set back, so that such a message, and
        all that were parked by then, count as stored when that is noticed: they wait once more as
        long as their level says, and never less. RocketMQ delivers them at once.
        """
        stored = view.store_timestamp
        if stored <= now:
            return stored + self.delay_ms
        latest = now + self.delay_ms
        if queue_offset >= self._ahead_limit or self._ahead_due > latest:
            self._ahead_due, self._ahead_limit = latest, max_offset
        return self._ahead_due

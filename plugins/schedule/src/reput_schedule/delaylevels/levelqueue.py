"""`LevelQueue`: how far one delay level was delivered, and when its next message is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.record import MessageView


@attrs.define(eq=False, repr=False)
class LevelQueue:
    """One queue of the schedule topic. Used by the working thread only."""

    level: int
    delay_ms: int
    offset: int
    """Queue offset of the next message to deliver."""
    due: int | None = None
    """When the next message is due, ms; None if there is no message or it was not read yet."""
    is_known: bool = False
    """Whether `due` is up to date."""
    is_behind: bool = False
    """Whether the queue ends below `offset`, because it is being rebuilt."""
    hold_offset: int | None = 0
    """Physical offset below which the level needs nothing of the log; None while nothing waits."""
    delivered_ahead: set[int] = attrs.field(factory=set)
    """Queue offsets above `offset` that were delivered: a crash took the copy of a message before
    them, which has to be delivered again."""
    _ahead_due: int = 0
    _ahead_limit: int = -1

    def forget(self) -> None:
        """Forget when the next message is due, so that it is read again."""
        self.due, self.is_known, self.is_behind = None, False, False

    def move_to(self, offset: int) -> None:
        """Go on at ``offset``, or at the first queue offset above it that was not delivered."""
        while offset in self.delivered_ahead:
            offset += 1
        self.offset = offset
        if self.delivered_ahead:
            self.delivered_ahead = {place for place in self.delivered_ahead if place > offset}

    def due_of(self, view: MessageView, queue_offset: int, now: int, max_offset: int) -> int:
        """Return when a message is due, ms.

        A message with a store time after ``now`` was stored by a clock that was ahead. Its store
        time would keep the level waiting for as long as the clock was set back. So this message,
        and all that were parked by then, count as stored when the difference is noticed: they wait
        the whole delay of their level once more, never less. RocketMQ delivers them at once.
        """
        stored = view.store_timestamp
        if stored <= now:
            return stored + self.delay_ms
        latest = now + self.delay_ms
        if queue_offset >= self._ahead_limit or self._ahead_due > latest:
            self._ahead_due, self._ahead_limit = latest, max_offset
        return self._ahead_due

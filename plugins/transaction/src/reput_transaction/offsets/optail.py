"""`OpTail`: op messages that RocketMQ would still have to read, in little memory.

RocketMQ keeps two consumer offsets: H in the half queue, O in the op queue. Every op message that
names a half message at or above H must be at or above O. A lower O costs reading and nothing else,
so neighbouring entries are merged when there are too many.
"""

from __future__ import annotations

import attrs

_ENTRIES_MAX = 4096


@attrs.define
class OpTail:
    """Op queue offsets, with the largest half queue offset named from each to the next."""

    entries: list[tuple[int, int]] = attrs.field(factory=list)
    """(op queue offset, largest half queue offset named up to the next entry), ascending."""
    next_offset: int = 0
    """Op queue offset after the newest op message seen."""

    def add(self, op_offset: int, max_half_offset: int) -> None:
        """Note an op message."""
        self.entries.append((op_offset, max_half_offset))
        self.next_offset = max(self.next_offset, op_offset + 1)
        if len(self.entries) > _ENTRIES_MAX:
            pairs = self.entries
            self.entries = [
                (pairs[at][0], max(largest for _, largest in pairs[at : at + 2]))
                for at in range(0, len(pairs), 2)
            ]

    def drop_below(self, half_offset: int) -> None:
        """Forget the first entries that name only half messages below ``half_offset``."""
        self.entries = self.entries[self._done(half_offset) :]

    def offset(self, half_offset: int) -> int:
        """Return the first op queue offset that names a half at or above ``half_offset``."""
        done = self._done(half_offset)
        return self.entries[done][0] if done < len(self.entries) else self.next_offset

    def _done(self, half_offset: int) -> int:
        for place, (_, largest) in enumerate(self.entries):
            if largest >= half_offset:
                return place
        return len(self.entries)

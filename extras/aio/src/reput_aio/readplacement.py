"""`ReadPlacement`: which reads are made on the event loop, and which on a thread.

To go to a thread and back takes longer than to read messages that the system has in memory. So a
queue is read on the loop once its last messages were found near the log's end, as long as no such
read was slow, and only so much in one turn of the loop. This changes no answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import attrs

SLOW_SECONDS: Final = 0.05
"""What takes longer on the loop has waited for the disk, or for a lock."""
SPARED_SECONDS: Final = 1.0
"""For so long after a slow call the loop is spared such calls."""
_COUNT_MAX: Final = 32
_BYTES_MAX: Final = 1 << 20
_TURN_SECONDS: Final = 0.02
_QUEUES_MAX: Final = 10_000
_MEMORY_PART: Final = 0.4
"""As RocketMQ's ``accessMessageInMemoryMaxRatio``."""


def near_size() -> int:
    """Return how many bytes at the log's end are taken to be in memory."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
    return int(memory * _MEMORY_PART)


@attrs.define(eq=False)
class ReadPlacement:
    """Decides for the reads of one loop. Used on this loop."""

    call_soon: Callable[[Callable[[], None]], object]
    """The loop's: calls something in its next turn."""
    is_possible: bool
    """False for a store of which another process may be the writer: its reads look at the disk."""
    near_size: int = attrs.field(factory=near_size)
    count: int = attrs.field(init=False, default=0)
    """Reads on the loop since the start."""
    _near: dict[tuple[str, int], tuple[int, int]] = attrs.field(init=False, factory=dict)
    """By queue: queue offset and physical offset of a message that was found near the log's end.
    Later messages of the queue are, too."""
    _slow_until: float = attrs.field(init=False, default=0.0)
    """Until when the loop is spared, by the monotonic clock, s."""
    _turn_count: int = attrs.field(init=False, default=0)
    _turn_bytes: int = attrs.field(init=False, default=0)
    _turn_seconds: float = attrs.field(init=False, default=0.0)
    """Reads on the loop in this turn of it, bytes that they have found, and their time."""

    def allow(self, topic: str, queue_id: int, queue_offset: int, now: float) -> bool:
        """Whether a read of a queue is to be made on the loop.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: where the read begins.
            now: by the monotonic clock, s.
        """
        near = self._near.get((topic, queue_id))
        return (
            self.is_possible
            and near is not None
            and queue_offset >= near[0]
            and now >= self._slow_until
            and self._turn_count < _COUNT_MAX
            and self._turn_bytes < _BYTES_MAX
            and self._turn_seconds < _TURN_SECONDS
        )

    def note_read(self, size: int, began: float, ended: float) -> None:
        """Note a read on the loop, which has found ``size`` bytes; times as in `allow`."""
        if not self._turn_count:
            self.call_soon(self._end_turn)
        self.count += 1
        self._turn_count += 1
        self._turn_bytes += size
        self._turn_seconds += ended - began
        if ended - began > SLOW_SECONDS:
            self._slow_until = ended + SPARED_SECONDS

    def note_place(
        self, topic: str, queue_id: int, queue_offset: int, physical_offset: int, log_end: int
    ) -> None:
        """Note where the first message of a read was found.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: of the message.
            physical_offset: of the message.
            log_end: where the log ends.
        """
        key = topic, queue_id
        known = self._near.get(key)
        if known is not None and log_end - known[1] > self.near_size:
            known = None  # the log has grown since
            del self._near[key]
        if log_end - physical_offset > self.near_size:
            return
        if known is None and len(self._near) >= _QUEUES_MAX:
            self._near.clear()
        if known is None or queue_offset < known[0]:
            self._near[key] = queue_offset, physical_offset

    def _end_turn(self) -> None:
        self._turn_count = self._turn_bytes = 0
        self._turn_seconds = 0.0

"""`ReadPlacement`: which pulls read on the event loop, and which on a thread that may wait.

To go to another thread and back costs more than to read messages that the system has in memory. So
a queue is read on the loop once its last messages were found near the log's end, by tags at most,
as long as no such read was slow, and only so much in one turn of the loop. This changes no answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput_consumer import TAG

if TYPE_CHECKING:
    from reput import ReadResult
    from reput_client.remoting import Pull
    from reput_consumer import Selector

__all__ = ["ReadPlacement"]

_SLOW_SECONDS: Final = 0.05
_SPARED_SECONDS: Final = 1.0
_COUNT_MAX: Final = 32
_BYTES_MAX: Final = 1 << 20
_TURN_SECONDS: Final = 0.02
_QUEUES_MAX: Final = 10_000
_MEMORY_PART: Final = 0.4
"""As RocketMQ's ``accessMessageInMemoryMaxRatio``."""


def _near_size() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
    return int(memory * _MEMORY_PART)


@attrs.define(eq=False)
class ReadPlacement:
    """Decides for all pulls of a broker. Used on the event loop."""

    call_soon: Callable[[Callable[[], None]], object]
    """The loop's: calls something in its next turn."""
    is_possible: bool
    """False for a store of which another process may be the writer: its reads look at the disk."""
    near_size: int = attrs.field(factory=_near_size)
    """Bytes at the log's end that are taken to be in memory."""
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

    def allow(self, pull: Pull, selector: Selector, now: float) -> bool:
        """Whether a pull is to read on the loop.

        Args:
            pull: the pull.
            selector: what it selects.
            now: by the monotonic clock, s.
        """
        near = self._near.get((pull.topic, pull.queue_id))
        return (
            self.is_possible
            and selector.kind == TAG
            and near is not None
            and pull.queue_offset >= near[0]
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
        if ended - began > _SLOW_SECONDS:
            self._slow_until = ended + _SPARED_SECONDS

    def note_place(self, pull: Pull, result: ReadResult, log_end: int) -> None:
        """Note where the messages of a queue were found; without any, it stays as it was."""
        if not result.messages:
            return
        key = pull.topic, pull.queue_id
        offset, place = result.queue_offsets[0], result.messages[0].physical_offset
        known = self._near.get(key)
        if known is not None and log_end - known[1] > self.near_size:
            known = None  # the log has grown since
            del self._near[key]
        if log_end - place > self.near_size:
            return
        if known is None and len(self._near) >= _QUEUES_MAX:
            self._near.clear()
        if known is None or offset < known[0]:
            self._near[key] = offset, place

    def _end_turn(self) -> None:
        self._turn_count = self._turn_bytes = 0
        self._turn_seconds = 0.0

"""`ReadsHere`: which pulls read on the event loop, and which on a thread that may wait.

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
    from reput_consumer import Selector
    from reput_remoting import Pull

__all__ = ["ReadsHere"]

_SLOW_SECONDS: Final = 0.05
_SPARED_SECONDS: Final = 1.0
_COUNT_MAX: Final = 32
_BYTES_MAX: Final = 1 << 20
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
class ReadsHere:
    """Decides for all pulls of a broker. Used on the event loop."""

    call_soon: Callable[[Callable[[], None]], object]
    """The loop's: calls something in its next turn."""
    is_possible: bool
    """False for a store of which another process may be the writer: its reads look at the disk."""
    near_size: int = attrs.field(factory=_near_size)
    """Bytes at the log's end that are taken to be in memory."""
    count: int = attrs.field(init=False, default=0)
    """Reads on the loop since the start."""
    _near: dict[tuple[str, int], None] = attrs.field(init=False, factory=dict)
    """Queues whose last messages were found near the log's end."""
    _slow_until: float = attrs.field(init=False, default=0.0)
    """Until when the loop is spared, by the monotonic clock, s."""
    _turn_count: int = attrs.field(init=False, default=0)
    _turn_bytes: int = attrs.field(init=False, default=0)
    """Reads on the loop in this turn of it, and bytes that they have found."""

    def allow(self, pull: Pull, selector: Selector, now: float) -> bool:
        """Whether a pull is to read on the loop.

        Args:
            pull: the pull.
            selector: what it selects.
            now: by the monotonic clock, s.
        """
        return (
            self.is_possible
            and selector.kind == TAG
            and (pull.topic, pull.queue_id) in self._near
            and now >= self._slow_until
            and self._turn_count < _COUNT_MAX
            and self._turn_bytes < _BYTES_MAX
        )

    def note_read(self, size: int, began: float, ended: float) -> None:
        """Note a read on the loop, which has found ``size`` bytes; times as in `allow`."""
        if not self._turn_count:
            self.call_soon(self._end_turn)
        self.count += 1
        self._turn_count += 1
        self._turn_bytes += size
        if ended - began > _SLOW_SECONDS:
            self._slow_until = ended + _SPARED_SECONDS

    def note_place(self, pull: Pull, result: ReadResult, log_end: int) -> None:
        """Note where the messages of a queue were found; without any, it stays as it was."""
        if not result.messages:
            return
        key = pull.topic, pull.queue_id
        if log_end - result.messages[0].physical_offset <= self.near_size:
            if key not in self._near and len(self._near) >= _QUEUES_MAX:
                self._near.clear()
            self._near[key] = None
        else:
            self._near.pop(key, None)

    def _end_turn(self) -> None:
        self._turn_count = self._turn_bytes = 0

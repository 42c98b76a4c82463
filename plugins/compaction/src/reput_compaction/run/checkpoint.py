"""``position-checkpoint``: the queue offset up to which each queue was compacted.

Source: RocketMQ ``CompactionPositionMgr``. Different on purpose: the file is replaced atomically,
and flushed.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from reput.files import system_clock
from reput_tools.brokerfiles import BrokerDocument

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files import Disk

_MAP = "queueOffsetMap"
_INT64_MAX = (1 << 63) - 1


class Checkpoint:
    """The last queue offset that a compaction has seen, by queue. Thread-safe."""

    def __init__(
        self, disk: Disk, path: str, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        directory, name = os.path.split(path)
        self._document = BrokerDocument(
            directory, name, disk, system_clock, tell, is_versioned=False
        )
        self._lock = threading.Lock()
        found = self._document.read().get(_MAP)
        self._positions = {
            name: position
            for name, position in (found.items() if isinstance(found, dict) else ())
            if type(position) is int and -1 <= position <= _INT64_MAX
        }

    def get(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the last message that was compacted; -1 without one."""
        return self._positions.get(_name(topic, queue_id), -1)

    def set(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set the queue offset, durably."""
        name = _name(topic, queue_id)
        with self._lock:
            if self._positions.get(name, -1) == queue_offset:
                return
            changed = {**self._positions, name: queue_offset}
            self._document.replace({"empty": False, _MAP: dict(sorted(changed.items()))})
            self._positions = changed


def _name(topic: str, queue_id: int) -> str:
    return f"{topic}_{queue_id}"

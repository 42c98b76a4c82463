"""`QueueLocks`: which member may read a queue in order.

Source: RocketMQ ``RebalanceLockManager``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from reput_consumer.messagequeue import MessageQueue

EXPIRY_MS: Final = 60_000
"""Age at which another member may take a lock that its owner has not extended."""
_FEW: Final = 1_000


@attrs.define(eq=False)
class QueueLocks:
    """Locks of (group, queue), in memory. Thread-safe."""

    clock: Callable[[], int]
    _owners: dict[tuple[str, MessageQueue], tuple[str, int]] = attrs.field(init=False, factory=dict)
    """Member, and when it locked the queue last, ms."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _most: int = attrs.field(init=False, default=_FEW)
    """With more locks than this, those that have expired are looked for."""

    def take(self, group: str, member: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock, or extend, what no other member has; return the queues that the member has."""
        now = self.clock()
        taken = set()
        with self._lock:
            for queue in queues:
                owner, since = self._owners.get((group, queue), (member, now))
                if owner == member or now - since > EXPIRY_MS:
                    self._owners[group, queue] = member, now
                    taken.add(queue)
            if len(self._owners) > self._most:
                self._drop_expired(now)
        return taken

    def _drop_expired(self, now: int) -> None:
        """Drop what nobody has extended: who never joined its group never leaves it, either."""
        self._owners = {
            key: (owner, since)
            for key, (owner, since) in self._owners.items()
            if now - since <= EXPIRY_MS
        }
        self._most = max(_FEW, 2 * len(self._owners))

    def release(self, group: str, member: str, queues: Iterable[MessageQueue]) -> None:
        """Release those of ``queues`` that the member has."""
        with self._lock:
            for queue in queues:
                if self._owners.get((group, queue), ("", 0))[0] == member:
                    del self._owners[group, queue]

    def release_all(self, group: str, member: str) -> None:
        """Release everything that the member has in the group."""
        with self._lock:
            queues = [queue for name, queue in self._owners if name == group]
        self.release(group, member, queues)

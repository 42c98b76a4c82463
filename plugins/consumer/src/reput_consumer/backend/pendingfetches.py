"""`PendingFetches`: fetches that wait for a message, and what wakes them.

A waiting fetch is an entry in a table: it costs nothing until its queue gets a message.

Source: RocketMQ ``PullRequestHoldService`` and ``NotifyMessageArrivingListener``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import attrs

from reput_consumer.messagequeue import MessageQueue
from reput_consumer.names import LIGHT_PREFIX

QueueKey = tuple[str, int]
"""Topic and queue id."""


@attrs.frozen(eq=False)
class _Waiting:
    member: str
    queue: MessageQueue
    wake: Callable[[], None]


@attrs.define(eq=False, repr=False)
class PendingFetches:
    """Waiting fetches by queue. Thread-safe; they are woken without a lock."""

    _waiting: dict[QueueKey, list[_Waiting]] = attrs.field(init=False, factory=dict)
    _counts: dict[QueueKey, int] = attrs.field(init=False, factory=dict)
    """How often messages have arrived, of queues that were ever fetched."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    @property
    def are_awaited(self) -> bool:
        """Whether a queue was ever fetched; until then arrivals need not be counted."""
        return bool(self._counts)

    def count(self, key: QueueKey) -> int:
        """Return a number that changes when messages of the queue arrive; call it before a read."""
        with self._lock:
            return self._counts.setdefault(key, 0)

    def wait(
        self, key: QueueKey, count: int, member: str, queue: MessageQueue, wake: Callable[[], None]
    ) -> bool:
        """Have ``wake`` called at the next arrival; False if one came since ``count``."""
        with self._lock:
            if self._counts.get(key, 0) != count:
                return False
            self._waiting.setdefault(key, []).append(_Waiting(member, queue, wake))
            return True

    def arrive(self, keys: Iterable[QueueKey]) -> None:
        """Wake what waits for one of the queues; light queues, which no record names, always."""
        woken: list[_Waiting] = []
        with self._lock:
            light = [key for key in self._waiting if key[0].startswith(LIGHT_PREFIX)]
            for key in {*keys, *light}:
                if key in self._counts:
                    self._counts[key] += 1
                    woken += self._waiting.pop(key, ())
        for each in woken:
            each.wake()

    def forget(self, member: str, queue: MessageQueue | None = None) -> None:
        """Drop what a member waits for: one queue, or all."""
        with self._lock:
            for key, found in list(self._waiting.items()):
                kept = [
                    each
                    for each in found
                    if each.member != member or queue not in (None, each.queue)
                ]
                if kept:
                    self._waiting[key] = kept
                else:
                    del self._waiting[key]

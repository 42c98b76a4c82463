"""`PopLongPolling`: requests that wait for a message of a topic, and what wakes them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record.layout import PROPERTY_LIGHT_QUEUES
from reput_consumer.names import LIGHT_PREFIX

if TYPE_CHECKING:
    from reput.record import DispatchBatch


@attrs.frozen(eq=False)
class _Waiting:
    group: str
    topics: tuple[str, ...]
    wake: Callable[[], None]

    @property
    def light_count(self) -> int:
        return sum([topic.startswith(LIGHT_PREFIX) for topic in self.topics])


@attrs.define(eq=False, repr=False)
class PopLongPolling:
    """Waiting requests by topic. Thread-safe; they are woken without a lock.

    A request is woken as often as something may have come for it, until it ends waiting. It begins
    to wait before it looks for messages, so nothing comes unnoticed in between.
    """

    light_count: int = attrs.field(init=False, default=0)
    """Light queues that requests wait for, which no record's topic names."""
    _by_token: dict[int, _Waiting] = attrs.field(init=False, factory=dict)
    _by_topic: dict[str, set[int]] = attrs.field(init=False, factory=dict)
    _numbers: itertools.count[int] = attrs.field(init=False, factory=itertools.count)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._by_token)

    def begin(self, group: str, topics: Iterable[str], wake: Callable[[], None]) -> int:
        """Have ``wake`` called when something comes; return what `end` takes.

        ``wake`` is called on any thread, and must not wait.
        """
        waiting = _Waiting(group, tuple(topics), wake)
        with self._lock:
            token = next(self._numbers)
            self._by_token[token] = waiting
            self.light_count += waiting.light_count
            for topic in waiting.topics:
                self._by_topic.setdefault(topic, set()).add(token)
        return token

    def end(self, token: int) -> None:
        """Wake a request no more."""
        with self._lock:
            waiting = self._by_token.pop(token, None)
            self.light_count -= 0 if waiting is None else waiting.light_count
            for topic in waiting.topics if waiting is not None else ():
                tokens = self._by_topic[topic]
                tokens.discard(token)
                if not tokens:
                    del self._by_topic[topic]

    def wake(self, topics: Iterable[str], group: str | None = None) -> None:
        """Wake what waits for one of the topics, of all groups or of one."""
        if not self._by_topic:
            return
        with self._lock:
            tokens: set[int] = set()
            for topic in topics:
                tokens |= self._by_topic.get(topic, set())
            woken = [self._by_token[token] for token in sorted(tokens)]
        for each in woken:
            if group in (None, each.group):
                each.wake()

    def wake_all(self) -> None:
        """Wake everything, as the store closes."""
        with self._lock:
            woken = list(self._by_token.values())
        for each in woken:
            each.wake()


def light_queues_of(batch: DispatchBatch) -> set[str]:
    """Return the light queues that list messages of a batch."""
    listed = batch.text(PROPERTY_LIGHT_QUEUES)
    rows = np.flatnonzero(listed.present).tolist()
    return {name for row in rows for name in (listed[row] or "").split(",")}

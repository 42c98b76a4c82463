"""`PendingResets`: offsets that an operator has set, until the group's next pull takes notice.

A client knows where it reads better than its broker, and says so with every commit. So between the
operator's request and the client's next pull, what the client commits counts for nothing, and that
pull is answered with the new offset. That ends, too, once the group has gone on from there without
a pull: by a member that pops, or by one in this process.

Source: RocketMQ 5.x ``ConsumerOffsetManager#assignResetOffset``, ``PullMessageProcessor`` and
``PopMessageProcessor``. Different on purpose: a pull at just this offset is answered with messages,
as the client already knows it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_consumer import MessageQueue

Key = tuple[str, str, int]
"""Group, topic and queue id."""


@attrs.define(eq=False, repr=False)
class _Mark:
    offset: int
    is_committed: bool = False


@attrs.define(eq=False, repr=False)
class PendingResets:
    """Offsets by group and queue, in memory. Thread-safe."""

    committed: Callable[[str, str, int], int | None]
    """Returns the offset that a group has in a queue."""
    _marks: dict[Key, _Mark] = attrs.field(init=False, factory=dict)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    @contextlib.contextmanager
    def moving(self, group: str, offsets: Mapping[MessageQueue, int]) -> Iterator[None]:
        """Remember the offsets from which a group is to read queues; they are committed within."""
        marks = {(group, key.topic, key.queue_id): _Mark(at) for key, at in offsets.items()}
        with self._lock:
            before = {key: self._marks[key] for key in marks.keys() & self._marks.keys()}
            self._marks.update(marks)
        try:
            yield
        except BaseException:
            with self._lock:
                for key in marks:
                    self._marks.pop(key, None)
                self._marks.update(before)
            raise
        for each in marks.values():
            each.is_committed = True

    def drop_topic(self, topic: str) -> None:
        """Forget the offsets in a topic that was deleted."""
        self._keep(lambda key: key[1] != topic)

    def drop_group(self, group: str) -> None:
        """Forget the offsets of a group that was deleted."""
        self._keep(lambda key: key[0] != group)

    def _keep(self, is_kept: Callable[[Key], bool]) -> None:
        with self._lock:
            self._marks = {key: each for key, each in self._marks.items() if is_kept(key)}

    def has(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether the group has not taken notice yet."""
        key = group, topic, queue_id
        mark = self._marks.get(key)
        if mark is not None and mark.is_committed and self.committed(*key) != mark.offset:
            with self._lock:
                self._marks.pop(key, None)
            return False
        return mark is not None

    def take(self, group: str, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return where a pull is to go on instead of ``queue_offset``, once; None if there."""
        if not self.has(group, topic, queue_id):
            return None
        with self._lock:
            mark = self._marks.pop((group, topic, queue_id), None)
        return None if mark is None or mark.offset == queue_offset else mark.offset

"""`ProcessQueue`: what was fetched from one queue and is not finished, and what may be committed.

The offset to commit never passes the oldest unfinished message: a message that is stuck holds the
offset, and all later ones come again after a restart.

Source: RocketMQ ``ProcessQueue``.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
from attrs.validators import ge, instance_of

__all__ = ["Limits", "ProcessQueue"]

_MIB: Final = 1 << 20


class Sized(Protocol):
    """What a process queue must know of a message."""

    @property
    def size(self) -> int:
        """Bytes."""
        ...


M = TypeVar("M", bound=Sized)


def _limit(default: int) -> Any:
    return attrs.field(default=default, validator=[instance_of(int), ge(1)])


@attrs.frozen(kw_only=True)
class Limits:
    """How much of one queue may be fetched ahead."""

    message_count: int = _limit(1_000)
    size_mib: int = _limit(100)
    """MiB of whole records; a queue with a fraction more is not over it yet."""
    span: int = _limit(2_000)
    """From the oldest unfinished queue offset to the newest; not for queues read in order."""


@attrs.define(eq=False)
class ProcessQueue(Generic[M]):
    """The unfinished messages of one queue. Not thread-safe."""

    is_dropped: bool = False
    """Set when the queue was lost, or is read anew: results for its messages mean nothing then."""
    newest: int = -1
    """The largest queue offset that was ever put."""
    size: int = 0
    """Bytes of all unfinished messages."""
    _messages: dict[int, M] = attrs.field(init=False, factory=dict)
    """Those that were not taken in order, by queue offset."""
    _taken: dict[int, M] = attrs.field(init=False, factory=dict)
    """Those that were taken in order and not committed, by queue offset."""
    _order: deque[int] = attrs.field(init=False, factory=deque)
    """Sorted queue offsets; contains those of `_messages`, and others that have gone since."""

    def __len__(self) -> int:
        return len(self._messages) + len(self._taken)

    def __contains__(self, queue_offset: int) -> bool:
        return queue_offset in self._messages or queue_offset in self._taken

    @property
    def oldest(self) -> int | None:
        """The smallest queue offset that waits; None if none does."""
        order, messages = self._order, self._messages
        while order and order[0] not in messages:
            order.popleft()
        return order[0] if order else None

    @property
    def has_waiting(self) -> bool:
        """Whether `take` would return messages."""
        return bool(self._messages)

    @property
    def has_taken(self) -> bool:
        """Whether messages were taken and neither committed nor given back."""
        return bool(self._taken)

    @property
    def span(self) -> int:
        """Distance from the smallest queue offset that waits to the largest."""
        oldest = self.oldest
        if oldest is None:
            return 0
        while self._order[-1] not in self._messages:
            self._order.pop()
        return self._order[-1] - oldest

    def is_over(self, limits: Limits, *, in_order: bool) -> bool:
        """Whether no more may be fetched for now."""
        return (
            len(self) > limits.message_count
            or self.size // _MIB > limits.size_mib
            or (not in_order and self.span > limits.span)
        )

    # ------------------------------------------------------------------ concurrently

    def put(self, queue_offsets: Sequence[int], messages: Sequence[M]) -> None:
        """Add messages by queue offset; those that are there already are left alone.

        Args:
            queue_offsets: ``n`` queue offsets, in ascending order.
            messages: ``n`` messages.
        """
        if queue_offsets and queue_offsets[0] > self.newest:  # the usual case, all at once
            self._messages.update(zip(queue_offsets, messages, strict=True))
            self._order.extend(queue_offsets)
            self.size += sum([message.size for message in messages])
            self.newest = queue_offsets[-1]
            return
        for queue_offset, message in zip(queue_offsets, messages, strict=True):
            if queue_offset in self:
                continue
            self._messages[queue_offset] = message
            self.size += message.size
            self._sort_in(queue_offset)
            self.newest = max(self.newest, queue_offset)

    def get(self, queue_offset: int) -> M | None:
        """Return a message that waits; None if there is none."""
        return self._messages.get(queue_offset)

    def remove(self, queue_offsets: Iterable[int]) -> int | None:
        """Finish messages; return the queue offset to commit, None if nothing had been waiting."""
        if not self._messages:
            return None
        pop = self._messages.pop
        removed = [pop(queue_offset, None) for queue_offset in queue_offsets]
        self.size -= sum([message.size for message in removed if message is not None])
        oldest = self.oldest
        return self.newest + 1 if oldest is None else oldest

    # ------------------------------------------------------------------ in order

    def take(self, max_count: int) -> list[tuple[int, M]]:
        """Take the messages of the smallest queue offsets, until `commit` or `give_back`."""
        found: list[tuple[int, M]] = []
        while len(found) < max_count and (oldest := self.oldest) is not None:
            message = self._taken[oldest] = self._messages.pop(oldest)
            found.append((oldest, message))
        return found

    def commit(self) -> int | None:
        """Finish all that was taken; return the queue offset to commit, None if nothing was."""
        if not self._taken:
            return None
        newest = max(self._taken)
        self.size -= sum(message.size for message in self._taken.values())
        self._taken.clear()
        return newest + 1

    def give_back(self) -> None:
        """Have all that was taken wait again."""
        back, self._taken = self._taken, {}
        self._messages.update(back)
        for queue_offset in sorted(back, reverse=True):
            self._sort_in(queue_offset)

    def _sort_in(self, queue_offset: int) -> None:
        order = self._order
        if not order or queue_offset > order[-1]:
            order.append(queue_offset)
        elif queue_offset < order[0]:
            order.appendleft(queue_offset)
        elif queue_offset != order[0] and queue_offset != order[-1]:
            place = bisect.bisect_left(order, queue_offset)
            if order[place] != queue_offset:
                order.insert(place, queue_offset)

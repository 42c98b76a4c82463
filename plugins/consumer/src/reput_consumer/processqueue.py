"""`ProcessQueue`: unfinished messages fetched from one queue, and the offset to commit.

The offset to commit never passes the oldest unfinished message: a message that is stuck holds the
offset, and all later ones come again after a restart.

Messages stand in a window of rows, sorted by queue offset, one state byte each. They come and go in
runs, so that a run costs a search and a few slices, however long it is.

Source: RocketMQ ``ProcessQueue``.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from reput.plugin import INT32_MAX, integer_between

_MIB: Final = 1 << 20
_WAITS, _TAKEN, _FINISHED = 0, 1, 2
_STATE: Final = b"\x00", b"\x01", b"\x02"
"""Each of the states as text."""
_KEPT_ROWS: Final = 1_024
"""Finished rows at the head of a window that are worth moving all others for."""
_size_of = attrgetter("size")


class Sized(Protocol):
    """What a process queue must know of a message."""

    @property
    def size(self) -> int:
        """Bytes."""
        ...


M = TypeVar("M", bound=Sized)


def _limit(default: int) -> Any:
    return attrs.field(default=default, validator=integer_between(1, INT32_MAX))


@attrs.frozen(kw_only=True)
class Limits:
    """How much of one queue may be fetched ahead."""

    message_count: int = _limit(1_000)
    size_mib: int = _limit(100)
    """MiB of whole records; a queue with a fraction more is not over it yet."""
    span: int = _limit(2_000)
    """From the oldest unfinished queue offset to the newest; not for queues read in order."""


@attrs.define(eq=False, repr=False)
class ProcessQueue(Generic[M]):
    """The unfinished messages of one queue. Not thread-safe."""

    is_dropped: bool = False
    """Set when the queue was lost or reset: results for its messages mean nothing then."""
    newest: int = -1
    """The largest queue offset that was ever put."""
    size: int = 0
    """Bytes of all unfinished messages."""
    _waiting_count: int = attrs.field(init=False, default=0)
    _taken_count: int = attrs.field(init=False, default=0)
    _offsets: list[int] = attrs.field(init=False, factory=list)
    """Queue offset of each row, ascending."""
    _messages: list[M | None] = attrs.field(init=False, factory=list)
    """Message of each row; None once it is finished."""
    _ends: list[int] = attrs.field(init=False, factory=list)
    """Bytes of all messages up to the end of each row."""
    _origin: int = attrs.field(init=False, default=0)
    """Bytes of all messages before the first row: what `_ends` begins to count at."""
    _states: bytearray = attrs.field(init=False, factory=bytearray)
    _head: int = attrs.field(init=False, default=0)
    """All rows before this one are finished."""

    def __len__(self) -> int:
        return self._waiting_count + self._taken_count

    def __contains__(self, queue_offset: int) -> bool:
        row = self._row_of(queue_offset)
        return row >= 0 and self._states[row] != _FINISHED

    @property
    def oldest(self) -> int | None:
        """The smallest queue offset that waits; None if none does."""
        return self._offsets[self._oldest_row] if self._waiting_count else None

    @property
    def _oldest_row(self) -> int:
        """The first row that waits, of which there must be one."""
        return self._states.index(_WAITS, self._head)

    @property
    def has_waiting(self) -> bool:
        """Whether `take` would return messages."""
        return self._waiting_count > 0

    @property
    def has_taken(self) -> bool:
        """Whether messages were taken and neither committed nor given back."""
        return self._taken_count > 0

    @property
    def span(self) -> int:
        """Distance from the smallest queue offset that waits to the largest."""
        if not self._waiting_count:
            return 0
        return self._offsets[self._states.rindex(_WAITS)] - self._offsets[self._oldest_row]

    def is_over(self, limits: Limits, *, in_order: bool) -> bool:
        """Whether no more may be fetched for now."""
        return (
            self._waiting_count + self._taken_count > limits.message_count
            or self.size // _MIB > limits.size_mib
            or (not in_order and self.span > limits.span)
        )

    def put(self, queue_offsets: Sequence[int], messages: Sequence[M]) -> None:
        """Add messages by queue offset; known ones are left alone.

        Args:
            queue_offsets: ``n`` queue offsets, in ascending order.
            messages: ``n`` messages.
        """
        if queue_offsets and queue_offsets[0] > self.newest:  # the usual case, all at once
            before = self._end_of(len(self._ends) - 1)
            ends = accumulate(map(_size_of, messages), initial=before)
            self._ends += islice(ends, 1, None)
            self._offsets += queue_offsets
            self._messages += messages
            self._states += bytes(len(messages))
            self._waiting_count += len(messages)
            self.size += self._ends[-1] - before
            self.newest = queue_offsets[-1]
            return
        for queue_offset, message in zip(queue_offsets, messages, strict=True):
            self._sort_in(queue_offset, message)

    def _sort_in(self, queue_offset: int, message: M) -> None:
        row = bisect.bisect_left(self._offsets, queue_offset)
        if row == len(self._offsets) or self._offsets[row] != queue_offset:
            self._offsets.insert(row, queue_offset)
            self._messages.insert(row, None)
            self._ends.insert(row, self._end_of(row - 1))
            self._states.insert(row, _FINISHED)
        if self._states[row] != _FINISHED:
            return  # it is there already
        longer = message.size - (self._ends[row] - self._end_of(row - 1))
        self._ends[row:] = [end + longer for end in self._ends[row:]]
        self._messages[row], self._states[row] = message, _WAITS
        self._head = min(self._head, row)
        self._waiting_count += 1
        self.size += message.size
        self.newest = max(self.newest, queue_offset)

    # ------------------------------------------------------------------ concurrently

    def get(self, queue_offset: int) -> M | None:
        """Return a message that waits; None if it does not."""
        row = self._row_of(queue_offset)
        return self._messages[row] if row >= 0 and self._states[row] == _WAITS else None

    def remove(self, queue_offsets: Iterable[int]) -> int | None:
        """Finish messages; return the queue offset to commit, None if nothing had been waiting."""
        if not self._waiting_count:
            return None
        for queue_offset in queue_offsets:
            row = self._row_of(queue_offset)
            if row >= 0 and self._states[row] == _WAITS:
                self._waiting_count -= 1
                self._finish(row, row + 1)
        return self._next_offset()

    def remove_run(self, queue_offsets: Sequence[int]) -> int | None:
        """Finish messages as `remove` does, faster where they were put together.

        Args:
            queue_offsets: one at least, ascending.
        """
        count = len(queue_offsets)
        row = self._row_of(queue_offsets[0])
        if (
            row < 0
            or self._states.count(_WAITS, row, row + count) < count
            or self._offsets[row + count - 1] != queue_offsets[-1]
        ):
            return self.remove(queue_offsets)
        self._waiting_count -= count
        self._finish(row, row + count)
        return self._next_offset()

    def _next_offset(self) -> int:
        oldest = self.oldest
        return self.newest + 1 if oldest is None else oldest

    # ------------------------------------------------------------------ in order

    def take(self, max_count: int) -> tuple[list[int], list[M]]:
        """Take the messages of the smallest queue offsets, until `commit` or `give_back`.

        Returns:
            Their queue offsets, and the messages; ``max_count`` of them at most.
        """
        offsets: list[int] = []
        messages: list[Any] = []
        while self._waiting_count and len(offsets) < max_count:
            row = self._oldest_row
            end = self._end_of_run(row, _WAITS, max_count - len(offsets))
            self._states[row:end] = _STATE[_TAKEN] * (end - row)
            self._waiting_count -= end - row
            self._taken_count += end - row
            offsets += self._offsets[row:end]
            messages += self._messages[row:end]
        return offsets, messages

    def commit(self, max_count: int | None = None) -> int | None:
        """Finish what was taken; return the queue offset to commit, None if nothing was.

        Args:
            max_count: how many of the taken messages, those of the smallest queue offsets; None for
                all.
        """
        left = self._taken_count if max_count is None else min(max_count, self._taken_count)
        newest = None
        while left:
            row = self._states.index(_TAKEN, self._head)
            end = self._end_of_run(row, _TAKEN, left)
            newest = self._offsets[end - 1]
            left -= end - row
            self._taken_count -= end - row
            self._finish(row, end)
        return None if newest is None else newest + 1

    def give_back(self, max_count: int | None = None) -> None:
        """Have taken messages wait again.

        Args:
            max_count: how many, those of the largest queue offsets; None for all.
        """
        count = self._taken_count if max_count is None else min(max_count, self._taken_count)
        end = len(self._states)
        for _ in range(count):
            end = self._states.rindex(_TAKEN, 0, end)
            self._states[end] = _WAITS
        self._waiting_count += count
        self._taken_count -= count

    # ------------------------------------------------------------------ rows

    def _row_of(self, queue_offset: int) -> int:
        """Return the row of a queue offset; -1 if it has none, or was finished long ago."""
        row = bisect.bisect_left(self._offsets, queue_offset, self._head)
        return row if row < len(self._offsets) and self._offsets[row] == queue_offset else -1

    def _end_of(self, row: int) -> int:
        """Return the bytes of all messages up to the end of a row, which may be -1."""
        return self._ends[row] if row >= 0 else self._origin

    def _end_of_run(self, row: int, state: int, max_count: int) -> int:
        """Return the end of the rows from ``row`` on that are in one state."""
        found = self._states[row : row + max_count]
        return row + len(found) - len(found.lstrip(_STATE[state]))

    def _finish(self, row: int, end: int) -> None:
        """Finish rows, which are not counted any more, and drop what is finished at the head."""
        self.size -= self._ends[end - 1] - self._end_of(row - 1)
        if not self._waiting_count and not self._taken_count:
            self._drop(len(self._offsets))
            return
        self._states[row:end] = _STATE[_FINISHED] * (end - row)
        self._messages[row:end] = [None] * (end - row)
        if row == self._head:
            found = self._states.find(_WAITS, end), self._states.find(_TAKEN, end)
            self._head = min(each for each in found if each >= 0)
            if self._head > _KEPT_ROWS and 2 * self._head > len(self._offsets):
                self._drop(self._head)

    def _drop(self, count: int) -> None:
        """Let go of the first rows, which are finished."""
        self._origin = self._end_of(count - 1)
        for rows in (self._offsets, self._messages, self._ends, self._states):
            del rows[:count]
        self._head = 0

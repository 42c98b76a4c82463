"""Reads messages of a topic in storing order from its queues."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.knowntopics import no_topic
from reput_tools.cli.messages.timerange import time_runs

if TYPE_CHECKING:
    from reput import Store
    from reput.plugin import QueueInfo, ReadResult
    from reput.record import MessageView
    from reput_tools.cli.kit.timestamps import Start

_READ_COUNT = 256
_READ_SIZE = 1 << 20
_LAST_SPAN_MAX = 1 << 16  # messages that are read backward at a time
_LOOKS_FOR_QUEUES = 10  # while messages arrive: new queues are rare


class Placed(NamedTuple):
    """A message and its place in the queue that was read."""

    queue_offset: int
    message: MessageView

    @property
    def physical_offset(self) -> int:
        """Physical offset at which its record begins."""
        return self.message.physical_offset


class Lost(NamedTuple):
    """Stands in the place of a message that cannot be read any more."""

    topic: str | None
    """None if the message's topic is not known; likewise the fields below."""
    queue_id: int | None
    queue_offset: int | None
    physical_offset: int
    size: int
    """Bytes lost there; 0 if not known."""
    reason: str

    def __str__(self) -> str:
        queue = "" if self.topic is None else f"{self.topic}/"
        queue += "" if self.queue_id is None else f"{self.queue_id}"
        queue += "" if self.queue_offset is None else f"@{self.queue_offset}"
        place = f"physical offset {self.physical_offset}"
        place += f", {self.size} bytes" if self.size else ""
        return f"{queue or 'a message of unknown topic'} is lost ({place}): {self.reason}"

    def document(self) -> dict[str, Any]:
        """Return the JSON object for ``--json``."""
        return {"hole": True, **self._asdict()}


# --------------------------------------------------------------------------- queues


def choose_queues(
    every: Sequence[QueueInfo], root: str, topic: str, queue_id: int | None = None
) -> list[QueueInfo]:
    """Return the queues of the topic, or the queue with that id.

    Raises:
        Failure: no such topic or queue; the text names the existing ones.
    """
    found = [queue for queue in every if queue.topic == topic]
    if not found:
        raise no_topic(root, topic, {queue.topic for queue in every})
    if queue_id is None:
        return found
    chosen = [queue for queue in found if queue.queue_id == queue_id]
    if not chosen:
        there = ", ".join(str(queue.queue_id) for queue in found[:20])
        more = ", …" if len(found) > 20 else ""
        text = f"topic {topic!r} has no queue {queue_id}; it has {there}{more}"
        raise Failure(text, ExitCode.NOT_FOUND)
    return chosen


class QueueReader:
    """Reads one queue forward, in chunks, and remembers its position."""

    def __init__(
        self, store: Store, queue: QueueInfo, start: Start, until: int | None = None
    ) -> None:
        self._store = store
        self._until = until
        """Store time, ms, after which no message is wanted; None for none."""
        self.topic = queue.topic
        self.queue_id = queue.queue_id
        self.next_offset = self._first_offset(queue, start)
        self.stop_offset = queue.max_queue_offset
        self.has_more = False
        """Whether messages were left after the last read."""
        self.known_to = -1
        """Physical offset of the last message that was read."""

    def _first_offset(self, queue: QueueInfo, start: Start) -> int:
        if start.kind == "latest":
            return queue.max_queue_offset
        if start.kind == "offset":
            return max(start.value, queue.min_queue_offset)
        if start.kind == "time":
            return self._store.offset_by_time(queue.topic, queue.queue_id, start.value)
        return queue.min_queue_offset

    @property
    def left(self) -> int:
        """Number of messages up to the queue's end when this reader was made."""
        return max(self.stop_offset - self.next_offset, 0)

    def read(self, limit: int = _READ_COUNT) -> list[Placed | Lost]:
        """Return the next messages and losses, at most ``limit``; none at the queue's end."""
        while True:
            result = self._store.read(
                self.topic, self.queue_id, self.next_offset, min(limit, _READ_COUNT), _READ_SIZE
            )
            if result or result.holes:
                self.next_offset = result.next_queue_offset
                self.has_more = self.next_offset < result.max_queue_offset
                found = self._with_holes(result)
                self.known_to = found[-1].physical_offset
                return found
            # The head of the queue was trimmed, or offsets are missing: the result says where to go
            # on.
            if not self.next_offset < result.next_queue_offset < result.max_queue_offset:
                self.has_more = False
                return []
            self.next_offset = result.next_queue_offset

    def _with_holes(self, result: ReadResult) -> list[Placed | Lost]:
        found: list[Placed | Lost] = list(map(Placed, result.queue_offsets, result.messages))
        if not result.holes:
            return found
        found += [
            Lost(
                self.topic,
                self.queue_id,
                hole.queue_offset,
                hole.physical_offset,
                hole.size,
                hole.reason,
            )
            for hole in result.holes
        ]
        return sorted(found, key=lambda each: each.queue_offset or 0)

    def until_stop(self) -> Iterator[Placed | Lost]:
        """Yield messages up to the queue's end when this reader was made."""
        while self.next_offset < self.stop_offset:
            placed = self.read(self.stop_offset - self.next_offset)
            if not placed:
                return
            yield from placed
            if self._until is not None and self._is_past(placed[-1], self._until):
                return

    def _is_past(self, placed: Placed | Lost, until: int) -> bool:
        """Whether all that follows in the queue was stored after ``until``, whatever clocks did."""
        from reput.log import CLOCK_SLACK_MS  # not for --help

        if not isinstance(placed, Placed):
            return False
        message = placed.message
        if message.store_timestamp <= until + CLOCK_SLACK_MS:
            return False
        return not time_runs(self._store).comes_again(message.physical_offset, until)

    def last(self, count: int, matches: Callable[[Placed], bool]) -> list[Placed | Lost]:
        """Return the last messages that match, and losses among them, by reading backward.

        The next `read` goes on at the queue's end when this reader was made.

        Args:
            count: of messages, at most.
            matches: says whether a message counts.
        """
        first, end, stop = self.next_offset, self.stop_offset, self.stop_offset
        kept: list[Placed | Lost] = []
        found, span = 0, max(count, _READ_COUNT)
        while first < end and found < count:
            self.next_offset = begin = max(first, end - span)
            part: list[Placed | Lost] = []
            # Missing messages may lead a read beyond its part, to messages that are known already.
            while self.next_offset < end and (placed := self.read(end - self.next_offset)):
                part += [each for each in placed if (each.queue_offset or 0) < end]
            part = [each for each in part if not isinstance(each, Placed) or matches(each)]
            found += sum(isinstance(each, Placed) for each in part)
            kept = part + kept
            end, span = begin, min(2 * span, _LAST_SPAN_MAX)
        self.next_offset = stop
        return last_of(kept, count)


def merged(readers: Sequence[QueueReader]) -> Iterator[Placed | Lost]:
    """Yield messages of all readers in log order, up to where the queues ended."""
    return heapq.merge(*(reader.until_stop() for reader in readers), key=_physical_offset)


def last_of(found: Iterable[Placed | Lost], count: int) -> list[Placed | Lost]:
    """Return the last ``count`` messages of ``found``, and the losses after the first of them."""
    kept: deque[Placed | Lost] = deque()
    held = 0
    for each in found:
        kept.append(each)
        held += isinstance(each, Placed)
        while held > count:
            held -= isinstance(kept.popleft(), Placed)
    return list(kept)


def follow(
    readers: list[QueueReader],
    find_new: Callable[[set[int]], list[QueueReader]],
    wait: Callable[[], bool],
) -> Iterator[Placed | Lost]:
    """Yield messages as they arrive, in log order.

    Args:
        readers: readers of the known queues, each at its position.
        find_new: returns readers of new queues, given the ids of the known ones.
        wait: waits until another look is worthwhile; False ends.
    """
    # The writer appends while the queues are read in turn, so one round may find a message and miss
    # an older one, which the next round finds: messages are held back for one round.
    held: list[Placed | Lost] = []
    for look in itertools.count(1):
        seen = _physical_offset(held[-1]) if held else -1
        arrived = [placed for reader in readers for placed in reader.read()]
        held = sorted(held + arrived, key=_physical_offset)
        if arrived:
            complete = min([seen, *(reader.known_to for reader in readers if reader.has_more)])
            count = bisect.bisect_right(held, complete, key=_physical_offset)
        else:
            count = len(held)
        yield from held[:count]
        held = held[count:]
        appeared = []
        if not arrived or look % _LOOKS_FOR_QUEUES == 0:
            appeared = find_new({reader.queue_id for reader in readers})
            readers += appeared
        if not arrived and not appeared and not wait():
            return


def _physical_offset(placed: Placed | Lost) -> int:
    return placed.physical_offset

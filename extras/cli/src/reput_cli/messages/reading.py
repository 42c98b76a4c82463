"""Reads messages of a topic in storing order from its queues."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reput_cli.kit.exitcodes import ExitCode
from reput_cli.kit.failures import Failure

if TYPE_CHECKING:
    from reput import Store
    from reput.plugin import QueueInfo, ReadResult
    from reput.record import MessageView
    from reput_cli.kit.times import Start

__all__ = ["Lost", "Placed", "QueueReader", "choose_queues", "follow", "merged"]

_READ_COUNT = 256
_READ_SIZE = 1 << 20
_LOOKS_FOR_QUEUES = 10  # new queues are rare, and listing all takes longer than reading one


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
        Failure: no such topic or queue; the text names those that exist.
    """
    found = [queue for queue in every if queue.topic == topic]
    if not found:
        text = _no_topic(root, topic, {queue.topic for queue in every})
        raise Failure(text, ExitCode.NOT_FOUND)
    if queue_id is None:
        return found
    chosen = [queue for queue in found if queue.queue_id == queue_id]
    if not chosen:
        there = ", ".join(str(queue.queue_id) for queue in found[:20])
        more = ", …" if len(found) > 20 else ""
        text = f"topic {topic!r} has no queue {queue_id}; it has {there}{more}"
        raise Failure(text, ExitCode.NOT_FOUND)
    return chosen


def _no_topic(root: str, topic: str, known: set[str]) -> str:
    import difflib

    text = f"{root}: no topic {topic!r}"
    near = difflib.get_close_matches(topic, known, n=1)
    if near:
        return f"{text}; did you mean {near[0]!r}?"
    return (
        f"{text}; `reput info {root}` lists those there are" if known else f"{text} (none at all)"
    )


class QueueReader:
    """Reads one queue forward, in chunks, and remembers its position."""

    def __init__(self, store: Store, queue: QueueInfo, start: Start) -> None:
        self._store = store
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


def merged(readers: Sequence[QueueReader]) -> Iterator[Placed | Lost]:
    """Yield messages of all readers in log order, up to where the queues ended."""
    return heapq.merge(*(reader.until_stop() for reader in readers), key=_physical_offset)


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
        if look % _LOOKS_FOR_QUEUES == 0:
            appeared = find_new({reader.queue_id for reader in readers})
            readers += appeared
        if not arrived and not appeared and not wait():
            return


def _physical_offset(placed: Placed | Lost) -> int:
    return placed.physical_offset

"""Messages of a topic in the order of storing, from its queues or from the log itself."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reput.cli.exitcodes import ExitCode
from reput.cli.failures import Failure

if TYPE_CHECKING:
    from reput.cli.times import Start
    from reput.results import QueueInfo
    from reput.store import Store
    from reput.view import MessageView

__all__ = ["Placed", "QueueReader", "choose_queues", "follow", "merged", "scanned"]

_READ_COUNT = 256
_READ_SIZE = 1 << 20
_LOOKS_FOR_QUEUES = 10  # new queues are rare, and to list all of them takes longer than to read one
_TRANSACTION_HIDDEN = (0x4, 0xC)  # prepared and rollback records are in no queue


class Placed(NamedTuple):
    """A message and its place in the queue that was read."""

    queue_offset: int
    message: MessageView


# --------------------------------------------------------------------------- queues


def choose_queues(
    every: Sequence[QueueInfo], root: str, topic: str, queue_id: int | None = None
) -> list[QueueInfo]:
    """Those of a store's queues that are of the topic, or the one of that id.

    Raises:
        Failure: no such topic, or it has no such queue; the text names what there is.
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
    """Reads one queue forward, in chunks, and remembers where it is."""

    def __init__(self, store: Store, queue: QueueInfo, start: Start) -> None:
        self._store = store
        self.topic = queue.topic
        self.queue_id = queue.queue_id
        self.next_offset = self._first_offset(queue, start)
        self.stop_offset = queue.max_queue_offset
        self.has_more = False
        """Whether the last read left messages behind."""
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
        """Messages up to where the queue ended when this was made."""
        return max(self.stop_offset - self.next_offset, 0)

    def read(self, limit: int = _READ_COUNT) -> list[Placed]:
        """The next messages, at most ``limit``; none where the queue ends."""
        while True:
            result = self._store.read(
                self.topic, self.queue_id, self.next_offset, min(limit, _READ_COUNT), _READ_SIZE
            )
            if result:
                self.next_offset = result.next_queue_offset
                self.has_more = self.next_offset < result.max_queue_offset
                self.known_to = result.messages[-1].physical_offset
                return list(map(Placed, result.queue_offsets, result.messages))
            # The head of the queue was trimmed, or a gap lies here: the answer says where to go on.
            if not self.next_offset < result.next_queue_offset < result.max_queue_offset:
                self.has_more = False
                return []
            self.next_offset = result.next_queue_offset

    def until_stop(self) -> Iterator[Placed]:
        """Messages up to where the queue ended when this was made."""
        while self.next_offset < self.stop_offset:
            placed = self.read(self.stop_offset - self.next_offset)
            if not placed:
                return
            yield from placed


def merged(readers: Sequence[QueueReader]) -> Iterator[Placed]:
    """Messages of all readers, in commit-log order, up to where the queues ended."""
    return heapq.merge(*(reader.until_stop() for reader in readers), key=_physical_offset)


def follow(
    readers: list[QueueReader],
    find_new: Callable[[set[int]], list[QueueReader]],
    wait: Callable[[], bool],
) -> Iterator[Placed]:
    """Messages as they arrive, in commit-log order.

    Args:
        readers: where reading stands.
        find_new: readers of queues that appeared, given the ids of those that are known.
        wait: waits until it is worth to look again; False ends.
    """
    # The writer goes on while one queue is read after the other, so a look may find a message and
    # not yet one that is older. The look after it does: what was found is held until then.
    held: list[Placed] = []
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


def _physical_offset(placed: Placed) -> int:
    return placed.message.physical_offset


# --------------------------------------------------------------------------- the log itself


def scanned(
    store: Store,
    topic: str,
    queue_id: int | None,
    start: Start,
    on_progress: Callable[[int, int], None],
) -> Iterator[Placed]:
    """Messages of the topic found by reading the whole log; needs no plugin.

    Args:
        store: whose log.
        topic: messages of this topic.
        queue_id: of this queue only.
        start: compared with each message: the log has no index.
        on_progress: called with bytes done and bytes in all.

    Raises:
        CorruptFileError: behind all messages in front of the damage.
    """
    import numpy as np

    from reput.errors import CorruptFileError

    first, last = store.log.min_physical_offset, store.log.max_physical_offset
    if start.kind == "latest":
        return
    for batch in store.scan(first, last):
        on_progress(batch.end_offset - first, last - first)
        if topic in batch.topics:
            wanted = batch.topic_code == batch.topics.index(topic)
            wanted &= ~np.isin(batch.transaction, _TRANSACTION_HIDDEN)
            if queue_id is not None:
                wanted &= batch.queue_id == queue_id
            if start.kind == "offset":
                wanted &= batch.queue_offset >= start.value
            if start.kind == "time":
                wanted &= batch.store_timestamp >= start.value
            for row in np.flatnonzero(wanted).tolist():
                message = batch.message(row)
                yield Placed(message.queue_offset, message)
        if batch.finding is not None:
            raise CorruptFileError(store.root, batch.finding.physical_offset, str(batch.finding))

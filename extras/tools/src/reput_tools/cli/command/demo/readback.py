"""Reads the demo's store back through its consume queues and compares every message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from reput_tools.cli.command.demo.orders import QueueSum
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.kit.timestamps import Start
from reput_tools.cli.messages.queuereader import Placed, QueueReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput import Store

Queue = tuple[str, int]
Units = list[tuple[int, int]]


class Check(NamedTuple):
    """One comparison of an expected with a found value."""

    what: str
    expected: int
    found: int

    @property
    def right(self) -> bool:
        """Whether the two values are equal."""
        return self.expected == self.found


class Amount(NamedTuple):
    """How much was read, and how long it took."""

    seconds: float
    message_count: int
    size: int


class _Tally:
    """The messages that were read back, by queue."""

    def __init__(self) -> None:
        self.java_in_place = 0
        self.java_intact = 0
        self.sums: dict[Queue, QueueSum] = {}
        self.new_in_place = 0
        self.new_intact = 0
        self.size = 0

    def add(self, queue: Queue, units: Units, chunk: Sequence[Placed]) -> None:
        """Count one chunk of a queue whose first messages Java wrote."""
        for place, message in chunk:
            in_place = place == message.queue_offset and queue == (message.topic, message.queue_id)
            intact = message.body_matches()
            self.size += message.size
            if place < len(units):
                self.java_in_place += in_place and units[place] == (
                    message.physical_offset,
                    message.size,
                )
                self.java_intact += intact
            else:
                self.new_in_place += in_place
                self.new_intact += intact
                self.sums[queue] = self.sums.get(queue, QueueSum()).with_body(message.body)


def check(
    store: Store, java: Mapping[Queue, Units], put: Mapping[Queue, QueueSum]
) -> tuple[list[Check], Amount]:
    """Read all queues from their beginnings, and compare every message.

    Args:
        store: the store, fully dispatched.
        java: the messages of each queue as RocketMQ listed them.
        put: sums of the messages put after that.
    """
    tally = _Tally()
    queues = store.queues()
    total = sum(queue.message_count for queue in queues)
    started = time.perf_counter()
    with ProgressBar("reading back", total) as progress:
        for info in queues:
            queue = info.topic, info.queue_id
            reader = QueueReader(store, info, Start("earliest"))
            while chunk := reader.read():
                placed = [each for each in chunk if isinstance(each, Placed)]
                tally.add(queue, java.get(queue, []), placed)
                progress.advance(len(chunk))
    amount = Amount(time.perf_counter() - started, progress.done, tally.size)
    java_count = sum(map(len, java.values()))
    put_count = sum(each.message_count for each in put.values())
    agreeing = sum(tally.sums.get(queue) == each for queue, each in put.items())
    return [
        Check("messages of RocketMQ stand where Java says", java_count, tally.java_in_place),
        Check("messages of RocketMQ have the body of their CRC", java_count, tally.java_intact),
        Check("new messages are in their queues, in order", put_count, tally.new_in_place),
        Check("new messages have the body of their CRC", put_count, tally.new_intact),
        Check("queues give back exactly the bodies that were put", len(put), agreeing),
    ], amount

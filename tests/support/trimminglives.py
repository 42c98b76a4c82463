"""A store whose head is removed while the power may be cut, and what must hold of what is left."""

from __future__ import annotations

import os
from collections import Counter

import attrs

import reput
from reput_testing import ManualClock
from reput_testing.crashes.powercuts import STATE_VARIABLE

SIZE = 4_096
QUEUES = 2


@attrs.define(eq=False)
class Life:
    """What one store was promised, and what was promised of it."""

    plugins: tuple = ()
    sections: dict = attrs.field(factory=dict)
    disk: object = None
    clock: object = attrs.field(factory=ManualClock)
    sent: list = attrs.field(factory=list)
    """Physical offset and queue of each message."""
    least_min: int = 0
    """Where the log begins at least: files below are gone for good."""
    most_min: int = 0
    """Where it begins at most."""
    store: object = None

    def note(self):
        """What holds at this moment; for the disk."""
        flushed = 0 if self.store is None else self.store.log.flushed_offset
        durable = sum(offset < flushed for offset, _ in self.sent)
        return durable, len(self.sent), self.least_min, self.most_min

    def open(self, root):
        log = {"file_size": SIZE, "flush": "sync"}
        self.store = reput.open(
            root,
            plugins=self.plugins,
            config={"commitlog": log, **self.sections},
            threads=False,
            disk=self.disk,
            clock=self.clock,
        )
        return self.store

    def put(self, count, topic="T"):
        for _ in range(count):
            number = len(self.sent)
            queue = topic, number % QUEUES
            message = reput.Message(*queue[:1], b"x" * 900, queue[1], keys=f"k{number}")
            # It may be on disk before the put has returned.
            self.sent.append((self.store.log.max_physical_offset, queue))
            receipt = self.store.put(message)
            self.sent[-1] = receipt.physical_offset, queue

    def clean(self, file_count):
        """Keep the last files only."""
        bases = self.store.log.files.bases
        self.most_min = max(self.most_min, bases[-file_count])
        report = self.store.trim_log(bases[-file_count])
        assert report.min_physical_offset == self.most_min
        self.least_min = report.min_physical_offset

    def close(self):
        self.store.close()
        self.store = None


def live(life, root):
    """Put, clean, close, open, put, clean: files go twice."""
    life.open(root)
    life.put(2, "Old")
    life.put(14)
    life.store.wait_dispatched()
    life.store.flush()
    life.put(1)
    life.clean(3)
    life.put(3)
    life.close()
    life.open(root)
    life.store.work()
    life.put(6)
    life.store.wait_dispatched()
    life.clean(2)
    life.put(1)
    life.close()


def check_left(life, note, root):
    """Open what is left, and see that only the head that was to go is gone.

    Returns:
        The open store, with everything dispatched, and the places of its messages.
    """
    durable, count, least_min, most_min = note
    survivor = attrs.evolve(life, disk=None, store=None)
    store = survivor.open(root)
    low = store.log.min_physical_offset
    assert least_min <= low <= most_min
    found = [
        int(offset) for batch in store.scan(check_crc=True) for offset in batch.physical_offset
    ]
    reached = max(durable, next((n for n, (o, _) in enumerate(life.sent) if o >= low), count))
    expected = [offset for offset, _ in life.sent[:count] if offset >= low]
    assert found == expected[: len(found)]
    assert len(found) >= sum(offset >= low for offset, _ in life.sent[:reached])
    # At most a blank at a file's end, or a message whose put had not returned.
    promised = [offset for offset, _ in life.sent[:durable]]
    for loss in store.losses():
        assert not any(loss.start_offset <= offset < loss.end_offset for offset in promised)
    kept = count - (len(expected) - len(found))
    store.wait_dispatched()
    # Queues go on where they were, also those that have lost all their messages.
    following = Counter(queue for _, queue in life.sent[:kept])
    for queue in sorted({queue for _, queue in life.sent}):
        receipt = store.put(reput.Message(queue[0], b"again", queue[1]))
        assert receipt.queue_offset == following[queue], queue
    store.wait_dispatched()
    return store, found


def crash_and_check(cuts, life, check):
    """Cut the power at every point of a life, and of what follows some of the cuts."""
    disk = cuts.disk(life.note)
    life.disk = disk
    live(life, os.path.join(disk.directory, "store"))
    disk.points.append(disk.now("the end"))

    def try_state(state, root):
        check(life, state.point.note, root / "store")

    points = disk.points
    if STATE_VARIABLE not in os.environ:  # a state is named by its place among all of them
        points = [point for point in points if point.note[3]]  # from the first removal on
    cuts.try_all(points, try_state)
    for start in cuts.starts(points, 4):
        cuts.add(_crash_again(cuts.beyond(start), life, check, start))


def _crash_again(cuts, life, check, start):
    """The power goes once more, while the next writer makes good what the first time has left."""
    cuts.tries = max(cuts.tries // 8, 1)
    durable, count, *minima = start.state.point.note
    fresh = cuts.again(start)
    later = attrs.evolve(life, disk=fresh, sent=life.sent[:count], store=None)
    with later.open(os.path.join(fresh.directory, "store")) as store:
        store.work()
    fresh.points.append(fresh.now("the end"))

    def try_state(state, root):
        check(later, (durable, count, *minima), root / "store")

    cuts.try_all(fresh.points, try_state)
    return cuts

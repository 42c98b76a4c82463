"""Consumer groups: messages a second, beside reads without a group and others' queues."""

from __future__ import annotations

import itertools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.cases.read import read_count
from benchmarks.stores import open_store
from benchmarks.tables import CONSUME, CONSUME_IN_TURNS
from benchmarks.trial import Measurement, Trial
from benchmarks.workload import BATCH, Workload

if TYPE_CHECKING:
    import reput

PLUGINS = ("consumequeue", "consumer")
"""Those of all stores of groups."""
_STEP = 32  # messages of one read, and of one call of a handler
_TURNS = 5
_LIBRARY_COUNT = 4_000  # messages; the library commits each of them


def cases() -> Iterator[Case]:
    """Each way to consume, and others' queues."""
    ways: dict[str, Callable[[Trial], None]] = {
        "plain": read_without,
        "iterated": partial(iterate, label="reput, group, iterated"),
        "iterated-ordered": partial(
            iterate, label="reput, group, iterated, in order", ordered=True
        ),
        "explicit": partial(iterate, label="reput, group, iterated, ack each", explicit=True),
        "awaited": await_each,
        "run-1": partial(run, batch=1, threads=1),
        "run-32": partial(run, batch=_STEP, threads=1),
        "run-32-ordered": partial(run, batch=_STEP, threads=1, ordered=True),
        "run-32-threads": partial(run, batch=_STEP, threads=20),
    }
    peers: dict[str, tuple[str, Callable[[Trial], None]]] = {
        "sqlite": ("sqlite3", consume_sqlite),
        "persist-queue": ("persistqueue", consume_library),
        "queue": ("reput", consume_queue),
    }
    for body in BODIES:
        name = body_name(body)
        for way, measure in ways.items():
            yield _case(f"{name}.{way}", measure, body, "reput_consumer")
        turns = Case(
            name=f"consumer.{name}.turns",
            table=CONSUME_IN_TURNS,
            run=take_turns,
            body_size=body,
            needs=("reput_consumer",),
        )
        yield turns
        for peer, (module, measure) in peers.items():
            yield _case(f"{name}.{peer}", measure, body, module)


def _case(name: str, measure: Callable[[Trial], None], body_size: int, module: str) -> Case:
    return Case(
        name=f"consumer.{name}", table=CONSUME, run=measure, body_size=body_size, needs=(module,)
    )


# --------------------------------------------------------------------------- messages a second


def read_without(trial: Trial) -> None:
    """``store.read`` until each queue is at its end: what the others are compared with."""
    with _Reading(trial, "reput, by queue, 32 a read, no group", baseline=True) as reading:
        reading.size = _read(reading.store)


def iterate(trial: Trial, *, label: str, **options: Any) -> None:
    """``for message in consumer``."""
    with _Reading(trial, label, options) as reading:
        if options.get("explicit"):
            for message in reading.consumer:
                reading.size += len(message.body)
                message.ack()
        else:
            for message in reading.consumer:
                reading.size += len(message.body)


def await_each(trial: Trial) -> None:
    """``async for message in consumer``."""
    import asyncio

    async def consume(consumer: Any) -> int:
        size = 0
        async for message in consumer:
            size += len(message.body)
        return size

    with _Reading(trial, "reput, group, awaited", {}) as reading:
        reading.size = asyncio.run(consume(reading.consumer))


def run(trial: Trial, *, batch: int, threads: int, ordered: bool = False) -> None:
    """``consumer.run`` with a function that looks at each body."""
    label = f"reput, group, function, batches of {batch}, {threads} thread{'s' * (threads > 1)}"
    sizes: list[int] = []

    def handle_one(message: Any) -> None:
        sizes.append(len(message.body))

    def handle(messages: Any) -> None:
        size = 0
        for message in messages:
            size += len(message.body)
        sizes.append(size)

    options = {"ordered": ordered}
    with _Reading(trial, label + ", in order" * ordered, options) as reading:
        reading.consumer.run(handle_one if batch == 1 else handle, threads=threads, batch=batch)
        reading.size = sum(sizes)


def take_turns(trial: Trial) -> None:
    """All in one process, one after the other, several times: a busy machine slows all of them."""
    count = max(read_count(trial) // 4 // BATCH, 1) * BATCH
    expected, number = count * trial.body_size, itertools.count()
    store = _filled(trial, count)
    topics = sorted({each.topic for each in store.queues()})

    def consume(batch: int, **options: Any) -> Callable[[], int]:
        sizes: list[int] = []

        def handle(messages: Any) -> None:
            size = 0
            for message in messages:
                size += len(message.body)
            sizes.append(size)

        def measured() -> int:
            sizes.clear()
            asked = {"start": "earliest", "until": "end", **options}
            consumer = store.plugin("consumer").consumer(f"bench-{next(number)}", topics, **asked)
            with consumer:
                if batch:
                    consumer.run(handle, threads=1, batch=batch)
                else:
                    sizes.append(sum(len(message.body) for message in consumer))
            return sum(sizes)

        return measured

    works = {
        "by queue, 32 a read, no group": lambda: _read(store),
        "group, function, batches of 32": consume(_STEP),
        "group, function, batches of 32, in order": consume(_STEP, ordered=True),
        "group, iterated": consume(0),
        "group, iterated, in order": consume(0, ordered=True),
    }
    trial.settle()
    times: dict[str, list[float]] = {label: [] for label in works}
    for _ in range(_TURNS):
        for label, work in works.items():
            began = time.process_time()
            size = work()
            times[label].append(time.process_time() - began)
            trial.require(size == expected, f"{label}: {size} of {expected} bytes were read")
    store.close()
    first = min(next(iter(times.values())))
    for label, found in times.items():
        row = Measurement(
            label=label, count=count, size=0, seconds=min(found), cpu_seconds=min(found)
        )
        row.facts["speed"] = f"{first / min(found):.0%} of no group"
        trial.measurements.append(row)


class _Reading:
    """Everything in a store is read once, which is measured, and whether it was everything."""

    def __init__(
        self,
        trial: Trial,
        label: str,
        options: dict[str, Any] | None = None,
        *,
        baseline: bool = False,
    ) -> None:
        self.trial = trial
        self.count = read_count(trial)
        self.size = 0
        self.store = _filled(trial, self.count)
        self.consumer: Any = None
        if options is not None:
            topics = sorted({each.topic for each in self.store.queues()})
            self.consumer = self.store.plugin("consumer").consumer(
                "bench", topics, start="earliest", until="end", **options
            )
        trial.settle()
        self._timed = trial.timed(
            label, self.count, self.count * trial.body_size, baseline=baseline
        )

    def __enter__(self) -> _Reading:
        self._timed.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._timed.__exit__(*raised)
        if self.consumer is not None:
            self.consumer.close()
        plugin = self.store.plugin("consumer")
        lag = plugin.progress("bench").lag if self.consumer is not None else 0
        self.store.close()
        expected = self.count * self.trial.body_size
        self.trial.require(self.size == expected, f"{self.size} of {expected} bytes were read")
        self.trial.require(lag == 0, f"the group lags by {lag}")


def _filled(trial: Trial, count: int) -> reput.Store:
    work = Workload(trial.body_size)
    store = open_store(trial.directory / "store", plugins=PLUGINS)
    for first in range(0, count, BATCH):
        store.put_many(work.columns(first, BATCH))
    store.wait_dispatched()
    return store


def _read(store: reput.Store) -> int:
    size = 0
    for each in store.queues():
        at = 0
        while found := store.read(each.topic, each.queue_id, at, _STEP, 8 << 20):
            for message in found:
                size += len(message.body)
            at = found.next_queue_offset
    return size


# --------------------------------------------------------------------------- others' queues


def consume_queue(trial: Trial) -> None:
    """A thread reads the store and puts messages into a ``queue.Queue``, one takes them out."""
    ends = object()
    bounded: queue.Queue[Any] = queue.Queue(maxsize=1_000)

    def feed() -> None:
        store = reading.store
        for each in store.queues():
            at = 0
            while found := store.read(each.topic, each.queue_id, at, _STEP, 8 << 20):
                for message in found:
                    bounded.put(message)
                at = found.next_queue_offset
        bounded.put(ends)

    with _Reading(trial, "queue.Queue, fed by a reader of reput") as reading:
        feeder = threading.Thread(target=feed)
        feeder.start()
        while (message := bounded.get()) is not ends:
            reading.size += len(message.body)
            bounded.task_done()
        feeder.join()


def consume_sqlite(trial: Trial) -> None:
    """A table of messages and one of offsets; 32 messages and their offset in a transaction."""
    count = max(read_count(trial) // 4 // BATCH, 1) * BATCH
    work, size = Workload(trial.body_size), 0
    path = trial.directory / "queue.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, topic TEXT, body BLOB)")
    database.execute("CREATE TABLE progress (name TEXT PRIMARY KEY, id INTEGER)")
    rows = map(work.row, range(count))
    database.execute("BEGIN")
    database.executemany(
        "INSERT INTO message VALUES (NULL, ?, ?)", ((row.topic, row.body) for row in rows)
    )
    database.execute("COMMIT")
    trial.settle()
    expected, at = count * trial.body_size, 0
    with trial.timed("SQLite, 32 and their offset in a transaction", count, expected):
        while True:
            database.execute("BEGIN IMMEDIATE")
            found = database.execute(
                "SELECT id, topic, body FROM message WHERE id > ? ORDER BY id LIMIT ?", (at, _STEP)
            ).fetchall()
            for _, _, body in found:
                size += len(body)
            at = found[-1][0] if found else at
            database.execute("INSERT OR REPLACE INTO progress VALUES ('bench', ?)", (at,))
            database.execute("COMMIT")
            if not found:
                break
    database.close()
    trial.require(size == expected, f"{size} of {expected} bytes were read")


def consume_library(trial: Trial) -> None:
    """The queue of the library persist-queue that is acknowledged, one message after the other."""
    import persistqueue

    count = trial.count(_LIBRARY_COUNT, least=100)
    work, size = Workload(trial.body_size), 0
    waiting = persistqueue.SQLiteAckQueue(str(trial.directory / "queue"), auto_commit=True)
    for number in range(count):
        waiting.put(tuple(work.row(number)))
    trial.settle()
    expected = count * trial.body_size
    with trial.timed("persist-queue, SQLiteAckQueue, ack each", count, expected):
        for _ in range(count):
            row = waiting.get(block=False)
            size += len(row[-1])
            waiting.ack(row)
    waiting.close()
    trial.require(size == expected, f"{size} of {expected} bytes were read")

"""Reading all messages back, through the consume queues and through the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.case import BODIES, Case, body_name
from benchmarks.peers.sqlite import Sqlite
from benchmarks.stores import open_store
from benchmarks.tables import READ
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

if TYPE_CHECKING:
    import reput

_READ_COUNT = {100: 400_000, 1024: 200_000}


def read_count(trial: Trial) -> int:
    """Return the number of messages that are read back: whole batches."""
    return max(trial.count(_READ_COUNT[trial.body_size]) // BATCH, 1) * BATCH


def cases() -> Iterator[Case]:
    """Reads of 32 and 1024 messages, as objects and columns; a scan; SQLite through its index."""
    for body in BODIES:
        name = body_name(body)
        for step in (32, 1024):
            yield Case(
                name=f"read.{name}.{step}",
                table=READ,
                run=partial(read_queues, step=step),
                body_size=body,
            )
            yield Case(
                name=f"read.{name}.{step}.columns",
                table=READ,
                run=partial(read_columns, step=step),
                body_size=body,
            )
            yield Case(
                name=f"sqlite.read.{name}.{step}",
                table=READ,
                run=partial(read_sqlite, step=step),
                body_size=body,
                needs=("sqlite3",),
            )
        yield Case(name=f"read.{name}.scan", table=READ, run=read_log, body_size=body)


def read_queues(trial: Trial, *, step: int) -> None:
    """``store.read`` until each queue is at its end."""
    count = read_count(trial)
    times: list[int] = []
    clock = time.perf_counter_ns
    with _filled(trial, count) as store:
        trial.settle()
        label = f"reput, by queue, {step} a read"
        read_size = 0
        size = count * trial.body_size
        with trial.timed(label, count, size, baseline=step == 32) as measured:
            for queue in store.queues():
                at = 0
                while True:
                    began = clock()
                    found = store.read(queue.topic, queue.queue_id, at, step, 8 << 20)
                    times.append(clock() - began)
                    if not found:
                        break
                    for message in found:
                        read_size += len(message.body)
                    at = found.next_queue_offset
    trial.require(read_size == size, f"{read_size} of {size} bytes were read")
    measured.latencies = Latencies.of(f"read of {step}", times)


def read_columns(trial: Trial, *, step: int) -> None:
    """``store.read`` as columns until each queue is at its end, a bytes object for each body."""
    count = read_count(trial)
    with _filled(trial, count) as store:
        trial.settle()
        read_size = 0
        size = count * trial.body_size
        with trial.timed(f"reput, by queue as columns, {step} a read", count, size):
            for queue in store.queues():
                at = 0
                while True:
                    found = store.read(
                        queue.topic, queue.queue_id, at, step, 8 << 20, as_columns=True
                    )
                    if not found:
                        break
                    read_size += sum(map(len, filter(None, found.batch.body.as_bytes())))
                    at = found.next_queue_offset
    trial.require(read_size == size, f"{read_size} of {size} bytes were read")


def read_log(trial: Trial) -> None:
    """``store.scan``, a bytes object for each body."""
    count = read_count(trial)
    read_size = 0
    size = count * trial.body_size
    with _filled(trial, count) as store:
        trial.settle()
        with trial.timed("reput, scan of the log", count, size):
            for batch in store.scan():
                bodies, window = batch.body, batch.window.data
                ends = bodies.starts + bodies.sizes
                for start, end in zip(bodies.starts.tolist(), ends.tolist(), strict=True):
                    read_size += len(bytes(window[start:end]))
    trial.require(read_size == size, f"{read_size} of {size} bytes were read")


def read_sqlite(trial: Trial, *, step: int) -> None:
    """Queries by topic, queue and queue offset."""
    count = max(read_count(trial) // 4 // BATCH, 1) * BATCH
    work = Workload(trial.body_size)
    database = Sqlite(trial.directory, durable=False)
    for first in range(0, count, BATCH):
        database.append_many([work.row(first + row) for row in range(BATCH)])
    queues = sorted({(row.topic, row.queue_id) for row in map(work.row, range(32))})
    trial.settle()
    read_size, size = 0, count * trial.body_size
    times: list[int] = []
    clock = time.perf_counter_ns
    with trial.timed(f"SQLite, by queue, {step} a query", count, size) as measured:
        for topic, queue_id in queues:
            at = 0
            while True:
                began = clock()
                bodies = database.read(topic, queue_id, at, step)
                times.append(clock() - began)
                if not bodies:
                    break
                for body in bodies:
                    read_size += len(body)
                at += len(bodies)
    database.close()
    trial.require(read_size == size, f"{read_size} of {size} bytes were read")
    measured.latencies = Latencies.of(f"query of {step}", times)


def _filled(trial: Trial, count: int) -> reput.Store:

    work = Workload(trial.body_size)
    store = open_store(trial.directory / "store")
    for first in range(0, count, BATCH):
        store.put_many(work.columns(first, BATCH))
    store.wait_dispatched()
    return store

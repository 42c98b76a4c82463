"""Appending to reput with ``flush="sync"``: on disk before the call returns."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_store
from benchmarks.tables import APPEND_MANY_DURABLE, APPEND_ONE_DURABLE
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

_SYNC = {"commitlog": {"flush": "sync"}}
_PUTS_PER_THREAD = 2_000


def cases() -> Iterator[Case]:
    """Puts of 1, 4 and 16 threads, which share flushes; and batches."""
    for body in BODIES:
        name = body_name(body)
        for threads in (1, 4, 16):
            yield Case(
                name=f"put.{name}.sync-{threads}",
                table=APPEND_ONE_DURABLE,
                run=partial(put_sync, threads=threads),
                body_size=body,
            )
        yield Case(
            name=f"put-many.{name}.sync",
            table=APPEND_MANY_DURABLE,
            run=put_many_sync,
            body_size=body,
        )


def put_sync(trial: Trial, *, threads: int) -> None:
    """Each thread puts one message at a time."""
    import reput

    each = trial.count(_PUTS_PER_THREAD, least=100)
    work = Workload(trial.body_size)
    shares = [list(work.messages(each, first=thread * each)) for thread in range(threads)]
    times: list[list[int]] = [[] for _ in shares]
    start = threading.Barrier(threads + 1)
    with open_store(trial.directory / "store", config=_SYNC) as store:
        store.put(work.message(0))

        def produce(share: list[reput.Message], own_times: list[int]) -> None:
            put, clock = store.put, time.perf_counter_ns
            start.wait()
            for message in share:
                began = clock()
                put(message)
                own_times.append(clock() - began)

        producers = [
            threading.Thread(target=produce, args=arguments)
            for arguments in zip(shares, times, strict=True)
        ]
        for producer in producers:
            producer.start()
        trial.settle()
        label = f"reput, {threads} producer{'s' if threads > 1 else ''}"
        count = threads * each
        with trial.timed(label, count, count * trial.body_size, baseline=threads == 1) as measured:
            start.wait()
            for producer in producers:
                producer.join()
        done = sum(map(len, times))
        trial.require(done == count, f"{done} of {count} puts came back")
    measured.latencies = Latencies.of("put", [one for own_times in times for one in own_times])


def put_many_sync(trial: Trial) -> None:
    """One thread puts lists of messages."""
    batches = trial.count(200, least=10)
    work = Workload(trial.body_size)
    made = [list(work.messages(BATCH, first)) for first in range(0, 8 * BATCH, BATCH)]
    count, times, clock = batches * BATCH, [], time.perf_counter_ns
    with open_store(trial.directory / "store", config=_SYNC) as store:
        store.put_many(made[0])
        trial.settle()
        size = count * trial.body_size
        with trial.timed("reput, list", count, size, baseline=True) as measured:
            for number in range(batches):
                began = clock()
                store.put_many(made[number % len(made)])
                times.append(clock() - began)
    measured.latencies = Latencies.of(f"put_many of {BATCH}", times)

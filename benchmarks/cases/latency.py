"""An idle store: time from put to readable, and processor time while idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import reput
from benchmarks.case import Case, body_name
from benchmarks.stores import open_store
from benchmarks.tables import IDLE
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import Workload
from reput.files import FileWatch

_BODY = 100
_PAUSE = 0.01  # seconds between two messages: the store has gone to sleep again
_REST = 0.5  # seconds after a flush, until its threads sleep again
_LOOK_EVERY = 20e-6  # seconds; reading without a pause would keep the reput thread from running


def cases() -> Iterator[Case]:
    """From put to readable, and processor time while nothing happens."""
    name = body_name(_BODY)
    yield Case(name=f"latency.{name}.readable", table=IDLE, run=put_to_readable, body_size=_BODY)
    yield Case(name=f"latency.{name}.beside", table=IDLE, run=put_to_reader, body_size=_BODY)
    yield Case(name=f"idle.{name}", table=IDLE, run=idle, body_size=_BODY)


def put_to_readable(trial: Trial) -> None:
    """Put one message, read until it is found, pause, repeat."""
    count = trial.count(3_000, least=200)
    work = Workload(_BODY)
    clock, pause = time.perf_counter_ns, time.sleep
    put_times, readable_times = [], []
    with open_store(trial.directory / "store") as store:
        for message in work.messages(64):
            store.put(message)
        store.wait_dispatched()
        trial.settle()
        with trial.timed("reput, until readable", count, baseline=True) as measured:
            for message in work.messages(count):
                pause(_PAUSE)
                began = clock()
                receipt = store.put(message)
                put_times.append(clock() - began)
                topic, queue_id, at = message.topic, message.queue_id, receipt.queue_offset
                while not store.read(topic, queue_id, at, 1):
                    pause(_LOOK_EVERY)
                readable_times.append(clock() - began)
    measured.latencies = Latencies.of("put until readable", readable_times)
    measured.facts["pause"] = f"{_PAUSE * 1e3:.0f} ms before each"
    waited = [readable - put for readable, put in zip(readable_times, put_times, strict=True)]
    for label, times in (("reput, put alone", put_times), ("reput, after put returned", waited)):
        trial.measurements.append(
            type(measured)(
                label=label,
                count=count,
                size=0,
                seconds=sum(times) / 1e9,
                latencies=Latencies.of(label, times),
            )
        )


def put_to_reader(trial: Trial) -> None:
    """Put one message, which a reader beside the writer waits for; then let the reader wait."""
    count, seconds = trial.count(1_000, least=100), max(5.0 * trial.scale, 2.0)
    root, clock, over = trial.directory / "store", time.perf_counter_ns, threading.Event()
    began, times, looks = [], [], 0
    message = reput.Message("orders", bytes(_BODY), queue_id=0)
    with (
        open_store(root) as store,
        reput.open(root, "r") as reader,
        FileWatch(root) as watch,
        ThreadPoolExecutor(1) as pool,
    ):
        store.put(message)
        store.wait_dispatched()
        watch.add("orders", "consumequeue", "orders", "0")

        def read() -> None:
            nonlocal looks
            while not over.is_set():
                if reader.read("orders", 0, 1 + len(times), 1):
                    times.append(clock() - began[len(times)])
                else:
                    looks += 1
                    watch.wait(watch.interval)

        reading = pool.submit(read)
        try:
            with trial.timed("reput, until a reader beside has it", count) as measured:
                for _ in range(count):
                    time.sleep(_PAUSE)
                    began.append(clock())
                    store.put(message)
            store.wait_dispatched()
            store.flush()
            time.sleep(_REST)  # what the flush leaves behind is not part of waiting
            with trial.timed("reput, a reader beside waits", 1, unit="waits") as waiting:
                time.sleep(seconds)
        finally:
            over.set()
            watch.wake()
        reading.result()
    trial.require(len(times) == count, f"the reader has {len(times)} of {count} messages")
    measured.latencies = Latencies.of("put until a reader has it", times)
    measured.facts["looks"] = str(looks)
    waiting.facts["processor"] = f"{waiting.cpu_seconds / waiting.seconds:.3%} of a core"


def idle(trial: Trial) -> None:
    """Measure the processor time of a store with 32 queues to which nothing is put."""
    seconds = max(5.0 * trial.scale, 2.0)
    work = Workload(_BODY)
    with open_store(trial.directory / "store") as store:
        store.put_many(list(work.messages(10_000)))
        store.wait_dispatched()
        store.flush()
        time.sleep(0.5)
        with trial.timed("reput, idle", 1, unit="waits") as measured:
            time.sleep(seconds)
    share = measured.cpu_seconds / measured.seconds
    measured.facts["processor"] = f"{share:.3%} of a core"

"""Timed messages: delivery error in real time, and the rate of a burst of deliveries."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.case import Case
from benchmarks.tables import TIMER
from benchmarks.trial import Latencies, Trial

if TYPE_CHECKING:
    from reput import Store

_NEEDS = ("reput", "reput_schedule", "reput_consumequeue")
_BODY = 100
_BURST = 200_000
_PER_PUT = 1_000


def cases() -> Iterator[Case]:
    """Delivery error by the system's clock, for two precisions; a burst for one moment."""
    for precision in (10, 1_000):
        yield Case(
            name=f"timer.{precision}ms.error",
            table=TIMER,
            run=functools.partial(error, precision=precision),
            body_size=_BODY,
            needs=_NEEDS,
            repeats=False,
        )
    yield Case(
        name="timer.burst", table=TIMER, run=burst, body_size=_BODY, needs=_NEEDS, repeats=False
    )


def error(trial: Trial, precision: int) -> None:
    """Put messages for random times in the next seconds; compare with the times of delivery."""
    import reput

    seconds = 20.0 * trial.scale + 3
    count = trial.count(20_000, least=500)
    source = random.Random(5)
    config = {"schedule": {"precision_ms": precision}}
    trial.warm_up()
    label = f"reput, precision {precision} ms"
    with reput.open(
        trial.directory / "store", plugins=["consumequeue", "schedule"], config=config
    ) as store:
        trial.settle()
        with trial.timed(label, count, count * _BODY) as measured:
            for _ in range(count):
                began = time.perf_counter()
                delay = source.randrange(2 * precision, 4_000)
                due = time.time_ns() // 1_000_000 + delay
                properties = {"TIMER_DELIVER_MS": str(due)}
                store.put(reput.Message("timed", b"x" * _BODY, 0, properties=properties))
                # A producer with an even rate: the workload, not a wait for a result.
                time.sleep(max(seconds / count - (time.perf_counter() - began), 0))
            late = _lateness(store, count, patience=10.0)
        trial.require(min(late) >= 0, "a message came early")
    measured.latencies = Latencies.of("late by", [each * 1_000_000 for each in late])
    measured.facts["p99 / precision"] = f"{measured.latencies.p99 / 1e3 / precision:.2f}"


def _lateness(store: Store, count: int, patience: float) -> list[int]:
    """Return how late each message was delivered, ms, once all are."""
    found: list[int] = []
    at, deadline = 0, time.monotonic() + patience
    while len(found) < count:
        result = store.read("timed", 0, at, 1_000)
        at = result.next_queue_offset if result else at
        found += [
            message.store_timestamp - int(message.properties["TIMER_DELIVER_MS"])
            for message in result
        ]
        if time.monotonic() > deadline:
            raise RuntimeError(f"wrong result: {len(found)} of {count} messages came")
        if not result:
            time.sleep(0.05)  # now and then: real deliveries take real time
    return found


def burst(trial: Trial) -> None:
    """Store messages for one moment, with a clock of the case's own, and deliver them."""
    import reput
    from reput_testing.logs.clock import ManualClock

    count = trial.count(_BURST, least=_PER_PUT) // _PER_PUT * _PER_PUT
    clock = ManualClock()
    properties = {"TIMER_DELIVER_MS": str(clock() + 60_000)}
    message = reput.Message("timed", b"x" * _BODY, 0, properties=properties)
    trial.warm_up()
    with reput.open(
        trial.directory / "store", plugins=["consumequeue", "schedule"], clock=clock, threads=False
    ) as store:
        trial.settle()
        with trial.timed("reput, park", count, count * _BODY):
            for _ in range(0, count, _PER_PUT):
                store.put_many([message] * _PER_PUT)
            store.wait_dispatched()
        clock.advance(60_000)
        with trial.timed("reput, deliver what is due at once", count, count * _BODY):
            while (due := store.work()) is not None and due <= clock():
                pass
        (queue,) = [each for each in store.queues() if each.topic == "timed"]
        trial.require(queue.message_count == count, "not everything was delivered")

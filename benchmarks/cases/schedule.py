"""Delay levels: storing, delivering a burst, lateness of deliveries, and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.case import Case
from benchmarks.tables import SCHEDULE
from benchmarks.trial import Latencies, Trial

if TYPE_CHECKING:
    import reput
    from reput_testing.logs.clock import ManualClock

_NEEDS = ("reput", "reput_schedule", "reput_consumequeue")
_BODY = 100
_PER_PUT = 1_000
_BURST = 200_000
_WAITING = 1_000_000
_LIVE = 20_000
_LEVEL = 3
_DELAY_MS = 10_000


def cases() -> Iterator[Case]:
    """A burst; a million messages by a simulated clock; and some by the system's clock."""
    for name, run in (("burst", burst), ("waiting", waiting), ("live", live)):
        yield Case(
            name=f"schedule.{name}",
            table=SCHEDULE,
            run=run,
            body_size=_BODY,
            needs=_NEEDS,
            repeats=False,
        )


def burst(trial: Trial) -> None:
    """Store messages of one level, and deliver them when all are due."""
    count = _whole(trial.count(_BURST))
    trial.warm_up()
    store, clock = _opened(trial)
    with store:
        trial.settle()
        with trial.timed("reput, park", count, count * _BODY):
            for first in range(0, count, _PER_PUT):
                store.put_many(_messages(first))
            store.wait_dispatched()
        clock.advance(_DELAY_MS)
        with trial.timed("reput, deliver what is due at once", count, count * _BODY):
            _deliver(store, clock)
        _require_all(trial, store, count)


def waiting(trial: Trial) -> None:
    """Store messages over some minutes of a simulated clock, and deliver them in time."""
    count = _whole(trial.count(_WAITING))
    trial.warm_up()
    store, clock = _opened(trial)
    with store:
        trial.settle()
        for first in range(0, count, _PER_PUT):
            store.put_many(_messages(first, level=16))
            clock.advance(10)
        while (due := store.work()) is not None and due <= clock():
            pass
        trial.require(
            store.plugin("schedule").scheduled().message_count == count,
            "something was delivered early",
        )
        with trial.timed(f"reput, deliver {count:,} in time", count, count * _BODY) as measured:
            while (due := store.work()) is not None:
                clock.advance(max(due - clock(), 0))
        late = _lateness(store, delay_ms=1_800_000)
        trial.require(len(late) == count and min(late) >= 0, "a message is missing or came early")
    measured.latencies = Latencies.of("late by", [each * 1_000_000 for each in late])


def live(trial: Trial) -> None:
    """Store messages by the system's clock, and measure how late they are delivered."""
    import reput

    count = trial.count(_LIVE, least=500)
    seconds = 20.0 * trial.scale + 2
    trial.warm_up()
    names = ["consumequeue", "schedule"]
    with reput.open(trial.directory / "store", plugins=names) as store:
        trial.settle()
        with trial.timed("reput, by the system's clock", count, count * _BODY) as measured:
            for number in range(count):
                began = time.perf_counter()
                store.put(_messages(number, 1, level=1)[0])
                # A producer with an even rate: the workload, not a wait for a result.
                time.sleep(max(seconds / count - (time.perf_counter() - began), 0))
            deadline = time.monotonic() + 30
            schedule = store.plugin("schedule")
            while schedule.scheduled().message_count and time.monotonic() < deadline:
                time.sleep(0.1)  # now and then: real deliveries take real time
            store.wait_dispatched()
        late = _lateness(store, delay_ms=1_000)
    trial.require(len(late) == count and min(late) >= 0, "a message is missing or came early")
    measured.latencies = Latencies.of("late by", [each * 1_000_000 for each in late])


def _opened(trial: Trial) -> tuple[reput.Store, ManualClock]:
    import reput
    from reput_testing.logs.clock import ManualClock

    clock = ManualClock()
    names = ["consumequeue", "schedule"]
    store = reput.open(trial.directory / "store", plugins=names, clock=clock, threads=False)
    return store, clock


def _messages(first: int, count: int = _PER_PUT, level: int = _LEVEL) -> list[reput.Message]:
    import reput

    return [
        reput.Message(
            "orders",
            b"x" * _BODY,
            number % 4,
            tags="paid",
            keys=f"order-{number}",
            properties={"DELAY": str(level), "UNIQ_KEY": f"{number:032X}"},
        )
        for number in range(first, first + count)
    ]


def _deliver(store: reput.Store, clock: ManualClock) -> None:
    while (due := store.work()) is not None and due <= clock():
        pass


def _lateness(store: reput.Store, delay_ms: int) -> list[int]:
    """Return how late each message was delivered, ms: its born timestamp is when it was put."""
    found: list[int] = []
    for batch in store.scan():
        if "orders" in batch.topics:
            rows = batch.topic_code == batch.topics.index("orders")
            late = batch.store_timestamp[rows] - batch.born_timestamp[rows] - delay_ms
            found += late.tolist()
    return found


def _require_all(trial: Trial, store: reput.Store, count: int) -> None:
    found = sum(queue.message_count for queue in store.queues() if queue.topic == "orders")
    trial.require(found == count, f"{found} of {count} messages were delivered")


def _whole(count: int) -> int:
    return max(count // _PER_PUT, 1) * _PER_PUT

"""What one plugin costs the others: a suspended, a sleeping, a slow one, and one that is behind."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.case import Case, body_name
from benchmarks.stores import open_store
from benchmarks.tables import BACKFILL, ISOLATION
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import Workload

if TYPE_CHECKING:
    import reput

__all__ = ["cases"]

_BODY = 100
_BATCH = 5_000
_SLEEP = 0.05  # seconds; what the sleeping neighbour does with a batch, and nothing else
_ROUNDS, _NOTICE = 8, 0.15  # times seconds: the store's watch looks once a second
# A message is put when the store has come to rest after the one before: latencies are those of a
# producer that puts a hundred a second, and not of a queue of puts.
_PAUSE = 0.01  # seconds
# Nothing wakes who reads, as for any reader: it asks again. A fraction of what is measured, and
# long enough that the looking leaves the interpreter to the threads that are looked at.
_LOOK_EVERY = 20e-6  # seconds


def cases() -> Iterator[Case]:
    """Four neighbours of the consume queues, and a backfill beside live messages."""
    name = body_name(_BODY)
    for neighbour in ("none", "suspended", "sleeping", "slow"):
        yield Case(
            name=f"isolation.{name}.{neighbour}",
            table=ISOLATION,
            run=_beside(neighbour),
            body_size=_BODY,
        )
    yield Case(
        name=f"backfill.{name}.latency",
        table=BACKFILL,
        run=latency_beside_backfill,
        body_size=_BODY,
    )


def _neighbour(kind: str) -> Any:
    import reput

    class Neighbour(reput.Plugin):
        """Takes part, and does what its kind says for every batch."""

        name = "neighbour"

        @reput.hookimpl
        def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
            """Do it."""
            if kind == "sleeping":
                time.sleep(_SLEEP)
            elif kind == "slow":
                # Text of every message, one by one: what a first plugin of somebody's looks like.
                keys = batch.text("KEYS")
                for _ in range(4):
                    for row in range(len(batch)):
                        keys[row]
            elif kind == "indexing":
                for name in ("KEYS", "UNIQ_KEY", "TAGS"):
                    batch.text(name).java_hash()
                zlib.crc32(batch.window)

    return Neighbour()


def _beside(kind: str) -> Callable[[Trial], None]:
    def run(trial: Trial) -> None:
        """Put as fast as the queues follow; the clock stops when they have everything."""
        import reput

        trial.warm_up()
        batches = trial.count(400, least=20)
        work = Workload(_BODY)
        messages = list(work.messages(_BATCH))
        plugins: list[Any] = ["consumequeue"]
        if kind != "none":
            plugins.append(_neighbour(kind))
        store = reput.open(trial.directory / "store", plugins=plugins)
        if kind == "suspended":
            store.suspend_plugin("neighbour")
        # What the store needs to find out that somebody is slow is not what is measured. Its watch
        # goes by the clock, so time has to pass; and nothing tells that it has found nothing.
        for _ in range(_ROUNDS):
            store.put_many(messages)
            time.sleep(_NOTICE)
        _wait_for_queues(store)
        trial.settle()
        with trial.timed(f"beside {kind}", batches * _BATCH, baseline=kind == "none") as measured:
            for _ in range(batches):
                store.put_many(messages)
            _wait_for_queues(store)
        states = {state.name: state for state in store.plugins()}
        if kind != "none":
            measured.facts["neighbour's lag"] = f"{states['neighbour'].lag_count:,} messages"
        store.close(timeout=0)

    return run


def _wait_for_queues(store: reput.Store) -> None:
    store.wait_dispatched(plugins=["consumequeue"])


def latency_beside_backfill(trial: Trial) -> None:
    """Put one message, look until it can be read, pause; alone, then beside a plugin far behind."""
    from reput_testing.crashes.insides import insides

    trial.warm_up()
    count = trial.count(1_500, least=150)
    work = Workload(_BODY)
    with open_store(trial.directory / "store") as store:
        for _ in range(trial.count(600, least=40)):
            store.put_many(list(work.messages(_BATCH)))
        store.wait_dispatched()
        trial.settle()
        with trial.timed("alone", count, baseline=True) as measured:
            times = [_until_readable(store, message) for message in work.messages(count)]
        measured.latencies = Latencies.of("put until readable", times)
        store.add_plugin(_neighbour("indexing"))
        behind = insides(store).loop.board.runners["neighbour"]  # a look that costs nothing
        with trial.timed("beside a backfill", 0) as measured:
            times, began = [], time.perf_counter()
            for message in work.messages(count):
                if store.log.max_physical_offset - behind.position < 1 << 20:
                    break
                times.append(_until_readable(store, message))
            seconds = time.perf_counter() - began
        measured.count = len(times)
        measured.latencies = Latencies.of("put until readable", times)
        rate = behind.figures.message_count / seconds
        measured.facts["backfill"] = (
            f"{behind.figures.message_count:,} messages, {rate:,.0f} per second"
        )


def _until_readable(store: reput.Store, message: reput.Message) -> int:
    time.sleep(_PAUSE)
    began = time.perf_counter_ns()
    receipt = store.put(message)
    while not store.read(message.topic, message.queue_id, receipt.queue_offset, 1):
        time.sleep(_LOOK_EVERY)
    return time.perf_counter_ns() - began

"""What one plugin costs the others: a suspended, a sleeping, a slow one, one with a backlog."""

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

_BODY = 100
_BATCH = 5_000
_SLEEP = 0.05  # seconds that the sleeping neighbour sleeps in each batch
_ROUNDS, _NOTICE = 8, 0.15  # times seconds: the store checks for slow plugins once a second
# A message is put when the store has become idle after the message before: latencies are those of
# a producer of a hundred messages a second, and not of a queue of puts.
_PAUSE = 0.01  # seconds
# Nothing wakes a reader of a store: it asks again. The interval is a fraction of what is measured,
# and long enough to leave the interpreter to the threads that are measured.
_LOOK_EVERY = 20e-6  # seconds


def cases() -> Iterator[Case]:
    """Four kinds of neighbour of the consume queues, and a backfill beside live messages."""
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
        """A neighbour that does what its kind says for every batch."""

        name = "neighbour"

        @reput.hookimpl
        def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
            """Handle one batch."""
            if kind == "sleeping":
                time.sleep(_SLEEP)
            elif kind == "slow":
                # Text of every message, one by one, as in many a first plugin.
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
        """Put as fast as the queues follow; the clock stops when the queues have everything."""
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
        # The time in which the store finds out that a plugin is slow is not measured. The store
        # checks by the clock, so time has to pass; no event tells that a check has found nothing.
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
    """Time put to readable with pauses, first alone, then beside a plugin with a large backlog."""
    from reput_testing.crashes.storeinternals import store_internals

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
        behind = store_internals(store).loop.board.runners["neighbour"]  # reading it costs nothing
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

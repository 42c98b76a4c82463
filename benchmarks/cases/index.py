"""The key index: built out of a log that is already there, and asked for single keys."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import INDEX, QUERY
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

__all__ = ["cases"]

_MESSAGES = 5_000_000  # two keys each
_QUESTIONS = 20_000


def cases() -> Iterator[Case]:
    """Consume queues and index together, the index alone; searches over ten million keys."""
    needs = ("reput", "reput_index", "reput_consumequeue")
    for body in BODIES:
        yield Case(
            name=f"index.{body_name(body)}",
            table=INDEX,
            run=build,
            body_size=body,
            needs=needs,
            big_log=True,
        )
    yield Case(name="index.query", table=QUERY, run=ask, body_size=100, needs=needs, repeats=False)


def build(trial: Trial) -> None:
    """Delete queues and index, open, wait until both are there again."""
    import reput

    assert trial.big_log is not None
    trial.warm_up()
    for directory in ("consumequeue", "index"):
        shutil.rmtree(trial.big_log / directory, ignore_errors=True)
    plugins = ["consumequeue", "index"]
    with trial.timed("reput, queues and index", count=0, baseline=True) as measured:
        store = reput.open(trial.big_log, plugins=plugins)
        done = store.wait_dispatched()
    with store:
        measured.size = store.log.max_physical_offset - store.log.min_physical_offset
        measured.count = sum(queue.message_count for queue in store.queues())
        items = store.plugin_objects["index"].reput_report()["item_count"]
        trial.require(done and items == 2 * measured.count > 0, "not everything was indexed")


def ask(trial: Trial) -> None:
    """Single keys, one message each: right after opening, and again."""
    import reput

    count = max(trial.count(_MESSAGES) // BATCH, 1) * BATCH
    work, root = Workload(trial.body_size), trial.directory / "store"
    with reput.open(root, plugins=["index"]) as store:
        for first in range(0, count, BATCH):
            store.put_many(work.columns(first, BATCH))
        store.wait_dispatched()
    source = random.Random(3)
    numbers = [source.randrange(count) for _ in range(trial.count(_QUESTIONS, least=100))]
    trial.settle()
    with reput.open(root) as store:
        for label in ("reput, store.query, just opened", "reput, store.query, again"):
            times = []
            with trial.timed(label, len(numbers), unit="searches") as measured:
                for number in numbers:
                    row = work.row(number)
                    began = time.perf_counter_ns()
                    found = store.query(row.topic, row.keys)
                    times.append(time.perf_counter_ns() - began)
                    trial.require(
                        [message.unique_key for message in found] == [row.unique_key], row.keys
                    )
            measured.latencies = Latencies.of("one search", times)
            measured.facts["keys"] = f"{2 * count:,}"

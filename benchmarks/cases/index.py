"""The key index: built from a log that already exists, and searched for single keys."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import QUEUES, open_large
from benchmarks.tables import INDEX, QUERY
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

_MESSAGES = 5_000_000  # two keys each
_QUESTIONS = 20_000
_COLD_QUESTIONS = 500  # before each of them all files are dropped from the page cache


def cases() -> Iterator[Case]:
    """Consume queues and index together, the index alone; searches among ten million keys."""
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
    """Delete queues and index, open, wait until both are complete again."""
    assert trial.big_log is not None
    trial.warm_up()
    for directory in ("consumequeue", "index"):
        shutil.rmtree(trial.big_log / directory, ignore_errors=True)
    with trial.timed("reput, queues and index", count=0, baseline=True) as measured:
        store = open_large(trial.big_log, (*QUEUES, "index"))
        done = store.wait_dispatched()
    with store:
        measured.size = store.log.max_physical_offset - store.log.min_physical_offset
        measured.count = sum(queue.message_count for queue in store.queues())
        items = store.plugin_objects["index"].reput_report()["item_count"]
        trial.require(done and items == 2 * measured.count > 0, "not everything was indexed")


def ask(trial: Trial) -> None:
    """Search for single keys of one message: from disk, right after opening, and again."""
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
    with reput.open(root, plugins=["index"]) as store:
        if hasattr(os, "posix_fadvise"):
            store.flush()
            cold = numbers[: trial.count(_COLD_QUESTIONS, least=50)]
            _measure(trial, store, work, cold, "reput, store.query, nothing cached", cold=root)
        for label in ("reput, store.query, just opened", "reput, store.query, again"):
            _measure(trial, store, work, numbers, label)
    for measured in trial.measurements:
        measured.facts["keys"] = f"{2 * count:,}"
        if not hasattr(os, "posix_fadvise"):
            measured.facts["nothing cached"] = "not measured, this system cannot drop pages"


def _measure(
    trial: Trial,
    store: Any,
    work: Workload,
    numbers: list[int],
    label: str,
    cold: Path | None = None,
) -> None:
    """Search for the keys of these messages; ``cold`` is the store to drop from the page cache."""
    times = []
    with trial.timed(label, len(numbers), unit="searches") as measured:
        for number in numbers:
            row = work.row(number)
            if cold is not None:
                _drop_from_cache(cold)
            began = time.perf_counter_ns()
            found = store.query(row.topic, row.keys)
            times.append(time.perf_counter_ns() - began)
            trial.require([message.unique_key for message in found] == [row.unique_key], row.keys)
    measured.latencies = Latencies.of("one search", times)
    if cold is not None:
        measured.seconds = sum(times) / 1e9  # without the time for dropping
        measured.cpu_seconds = 0.0


def _drop_from_cache(root: Path) -> None:
    """Make the system forget the pages of log and index, all of which are on disk."""
    for path in [*(root / "commitlog").iterdir(), *(root / "index").iterdir()]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

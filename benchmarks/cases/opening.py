"""Opening: a large store closed cleanly, a store whose writer was killed, and the import itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.case import Case, body_name
from benchmarks.dying import write_and_die
from benchmarks.stores import open_large, open_store
from benchmarks.tables import OPEN
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

_BODY = 1024


def cases() -> Iterator[Case]:
    """Open for writing and for reading, after a kill, and ``import reput``."""
    name = body_name(_BODY)
    for read_only, suffix in ((False, "clean"), (True, "read-only")):
        yield Case(
            name=f"open.{name}.{suffix}",
            table=OPEN,
            run=partial(open_clean, read_only=read_only),
            body_size=_BODY,
            big_log=True,
        )
    yield Case(name=f"open.{name}.killed", table=OPEN, run=open_killed, body_size=_BODY)
    yield Case(name="import", table=OPEN, run=import_reput)


def open_clean(trial: Trial, *, read_only: bool) -> None:
    """Open and close the large store several times."""
    assert trial.big_log is not None
    trial.warm_up()
    count = trial.count(20, least=5)
    times, size = [], 0
    label = "reput, read-only" if read_only else "reput, closed cleanly"
    with trial.timed(label, count, unit="opens", baseline=not read_only) as measured:
        for _ in range(count):
            began = time.perf_counter_ns()
            store = open_large(trial.big_log, mode="r" if read_only else "w")
            times.append(time.perf_counter_ns() - began)
            size = store.log.max_physical_offset - store.log.min_physical_offset
            store.close()
    measured.seconds = sum(times) / 1e9  # without the closing
    measured.latencies = Latencies.of("open", times)
    measured.facts["log"] = f"{size / 1e6:,.0f} MB"


def open_killed(trial: Trial) -> None:
    """Open a store whose writer died in the middle of its puts."""
    count = trial.count(200_000 // BATCH) * BATCH
    store_path = trial.directory / "store"
    write_and_die(partial(_write, store_path, count))
    trial.warm_up()
    with trial.timed("reput, after a kill", 1, unit="opens") as measured:
        began = time.perf_counter_ns()
        store = open_store(store_path)
        measured.latencies = Latencies.of("open", [time.perf_counter_ns() - began])
    with store:
        store.wait_dispatched()
        found = sum(queue.message_count for queue in store.queues())
        size = store.log.max_physical_offset - store.log.min_physical_offset
    measured.facts["log"] = f"{size / 1e6:,.0f} MB"
    trial.require(found == count, f"{found} of {count} messages are there")


def import_reput(trial: Trial) -> None:
    """``import reput`` in new interpreters, compared with interpreters that import nothing."""
    count = trial.count(20, least=5)
    for label, statement in (
        ("python -c pass", "pass"),
        ("python -c 'import reput'", "import reput"),
        ("python -c 'import reput; reput.open'", "import reput; reput.open"),
    ):
        times = []
        with trial.timed(label, count, unit="starts") as measured:
            for _ in range(count):
                began = time.perf_counter_ns()
                subprocess.run([sys.executable, "-c", statement], check=True)
                times.append(time.perf_counter_ns() - began)
        measured.latencies = Latencies.of("start", times)


def _write(path: Path, count: int) -> None:
    """Put ``count`` messages into a store that stays open."""
    work = Workload(_BODY)
    store = open_store(path)
    for first in range(0, count, BATCH):
        store.put_many(work.columns(first, BATCH))

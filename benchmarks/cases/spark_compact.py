"""Compacted topics: by the plugin's own run, by tasks on all cores, by tasks on Spark."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import COMPACTION_JOBS
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Engine

_MESSAGES = 1_000_000
_PER_PUT = 20_000
_OFTEN = 5  # messages of one key in one queue, on the average
_QUEUES = 4
_NEEDS = ("reput", "reput_compaction", "psutil")
_DERIVED = ("compaction", "reput/compaction")
_KEPT = "kept"  # a copy, beside the store


def cases() -> Iterator[Case]:
    """Two sizes of bodies; Spark where it is installed."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"compact.{name}",
            table=COMPACTION_JOBS,
            run=on_this_machine,
            body_size=body,
            needs=_NEEDS,
        )
        yield Case(
            name=f"compact.spark.{name}",
            table=COMPACTION_JOBS,
            run=on_spark,
            body_size=body,
            needs=(*_NEEDS, "reput_spark", "pyspark"),
        )


def on_this_machine(trial: Trial) -> None:
    """The plugin's own run; then tasks in this process, and in one process per processor."""
    from reput_tools.offline import LocalEngine

    _prepare(trial)
    expected = _compact(trial, None, "reput, the plugin's own run", baseline=True)
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        with LocalEngine(jobs) as engine:
            label = f"reput, tasks, {jobs} process{'es' * (jobs > 1)}"
            found = _compact(trial, engine, label)
        trial.require(found == expected, "other bytes than the plugin's own run")


def on_spark(trial: Trial) -> None:
    """The session exists, and its workers have imported what they need."""
    from reput_spark import local_session
    from reput_spark.jobs.sparkengine import SparkEngine

    _prepare(trial)
    cores = os.cpu_count() or 1
    session = local_session(f"local[{cores}]")
    try:
        with _open(trial.directory / "small") as store:
            _fill(store, 100, bytes(10))
        engine = SparkEngine(session)
        with _open(trial.directory / "small") as store:
            store.plugin("compaction").compact(engine=engine)
        _compact(trial, engine, f"reput-spark, tasks, local[{cores}]")
    finally:
        session.stop()


def _prepare(trial: Trial) -> None:
    """Make a store whose compacted topic waits for compaction, and a copy of its files."""
    trial.warm_up()
    root = trial.directory / "store"
    with _open(root) as store:
        _fill(store, trial.count(_MESSAGES, least=_QUEUES * _PER_PUT), bytes(trial.body_size))
        for queue in store.plugin_objects["compaction"].queues.values():
            queue.close_last()  # so that no run changes an existing file
    for name in _DERIVED:
        shutil.copytree(root / name, trial.directory / _KEPT / name)
    trial.settle()


def _open(root: Path) -> Store:
    import reput

    config = {"compaction": {"topics": ["keyed"]}}
    return reput.open(root, plugins=["compaction"], config=config, threads=False)


def _fill(store: Store, count: int, body: bytes) -> None:
    import reput

    source = random.Random(7)
    keys = [f"key-{source.randrange(max(count // _OFTEN // _QUEUES, 1)):09d}" for _ in range(count)]
    for first in range(0, count, _PER_PUT):
        some = keys[first : first + _PER_PUT]
        columns = reput.Columns(
            topic="keyed",
            body=[body] * len(some),
            keys=some,
            queue_id=first // _PER_PUT % _QUEUES,
        )
        store.put_many(columns)
    store.wait_dispatched()
    store.flush()


def _compact(
    trial: Trial, engine: Engine | None, label: str, *, baseline: bool = False
) -> dict[str, str]:
    """Compact, restore the files from before, and return what the files were in between."""
    root = trial.directory / "store"
    with _open(root) as store:
        facts = store.plugin_objects["compaction"].reput_report()
        with trial.timed(
            label, facts["kept_count"], facts["kept_size"], baseline=baseline, descendants=True
        ) as measured:
            results = store.plugin("compaction").compact(engine=engine)
    trial.require(len(results) == _QUEUES, "not every queue was compacted")
    measured.facts["kept"] = f"{sum(each.messages_after for each in results):,}"
    found = _digest(root / "compaction")
    for name in _DERIVED:
        shutil.rmtree(root / name)
        shutil.copytree(trial.directory / _KEPT / name, root / name)
    return found


def _digest(directory: Path) -> dict[str, str]:
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(directory))] = digest
    return found

"""Queues and index derived from an existing log: in order, on all cores, on Spark."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_large
from benchmarks.tables import REBUILD
from benchmarks.trial import Trial

_PLUGINS = ("consumequeue", "index")


def cases() -> Iterator[Case]:
    """The same store three times; Spark where it is installed."""
    needs = ("reput", "reput_index", "reput_consumequeue", "psutil")
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"rebuild.{name}",
            table=REBUILD,
            run=on_this_machine,
            body_size=body,
            needs=needs,
            big_log=True,
        )
        yield Case(
            name=f"rebuild.spark.{name}",
            table=REBUILD,
            run=on_spark,
            body_size=body,
            needs=(*needs, "reput_spark", "pyspark"),
            big_log=True,
        )


def on_this_machine(trial: Trial) -> None:
    """One process, and one process per processor."""
    from reput_tools.offline import rebuild

    assert trial.big_log is not None
    trial.warm_up()
    with open_large(trial.big_log, _PLUGINS) as store:
        store.wait_dispatched()
    before = _digest(trial.big_log)
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        label = "reput, in order, 1 process" if jobs == 1 else f"reput, splits, {jobs} processes"
        with trial.timed(label, 0, baseline=jobs == 1, descendants=jobs > 1) as measured:
            built = rebuild(trial.big_log, _PLUGINS, jobs=jobs)
        measured.count, measured.size = built[0].message_count, built[0].size
        trial.require(_digest(trial.big_log) == before, "other bytes than before")


def on_spark(trial: Trial) -> None:
    """The session exists, and its workers have imported what they need."""
    from reput_spark import local_session
    from reput_spark.jobs.rebuild import rebuild

    assert trial.big_log is not None
    trial.warm_up()
    with open_large(trial.big_log, _PLUGINS) as store:
        store.wait_dispatched()
    before = _digest(trial.big_log)
    cores = os.cpu_count() or 1
    session = local_session(f"local[{cores}]")
    try:
        rebuild(session, trial.directory / "warm-up", ["consumequeue"])
        title = f"reput-spark, splits, local[{cores}]"
        with trial.timed(title, 0, descendants=True) as measured:
            built = rebuild(session, trial.big_log, _PLUGINS)
        measured.count, measured.size = built[0].message_count, built[0].size
        trial.require(_digest(trial.big_log) == before, "other bytes than before")
    finally:
        session.stop()


def _digest(root: Path) -> dict[str, str]:
    """Return a digest of every derived file."""
    found = {}
    for name in _PLUGINS:
        for path in sorted((root / name).rglob("*")):
            if path.is_file():
                with open(path, "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                found[str(path.relative_to(root))] = digest
    return found

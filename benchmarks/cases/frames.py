"""The log as Arrow batches and as files, without Spark: tables, scans, exports and imports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_large
from benchmarks.tables import EXPORT, FRAMES, IMPORT
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from reput_arrow import Scan

_SMALL = ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp")


def cases() -> Iterator[Case]:
    """Scans of all columns and of few, beside decoding alone; every form of files, and back."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"frames.{name}",
            table=FRAMES,
            run=scans,
            body_size=body,
            needs=("reput", "pyarrow"),
            big_log=True,
        )
        for form in ("jsonl", "csv"):
            yield Case(
                name=f"export.{form}.{name}",
                table=EXPORT,
                run=partial(exports, form=form),
                body_size=body,
                needs=("reput", "reput_arrow.export", "psutil"),
                big_log=True,
            )
        yield Case(
            name=f"import.{name}",
            table=IMPORT,
            run=imports,
            body_size=body,
            needs=("reput", "reput_arrow.export", "psutil"),
            big_log=True,
        )


def scans(trial: Trial) -> None:
    """One process: batches are made and dropped, then kept as a table."""
    import reput_arrow

    assert trial.big_log is not None
    trial.warm_up()
    path = str(trial.big_log)
    with open_large(trial.big_log, mode="r") as store:
        size = store.log.max_physical_offset - store.log.min_physical_offset
        topic = store.queues()[0].topic
        with trial.timed("reput, decode alone", 0, size, baseline=True) as measured:
            measured.count = sum(len(batch) for batch in store.scan())
    count = measured.count
    for label, scan in (
        ("scan, all columns", reput_arrow.scan(path)),
        ("scan, topic, keys and body", reput_arrow.scan(path, columns=["topic", "keys", "body"])),
        ("scan, 5 small columns", reput_arrow.scan(path, columns=_SMALL)),
        ("scan, body of one topic", reput_arrow.scan(path, topic=topic, columns=["body"])),
    ):
        with trial.timed(f"reput.{label}", count, size):
            found = _drop(scan)
        trial.require(found == count or "one topic" in label, f"{found} rows, {count} messages")
    with trial.timed("reput_arrow.table, 5 small columns", count, size):
        table: Any = reput_arrow.table(path, columns=_SMALL)
    trial.require(table.num_rows == count, f"{table.num_rows} rows, {count} messages")


def _drop(scan: Scan) -> int:
    return sum(batch.num_rows for batch in scan)


def exports(trial: Trial, *, form: str) -> None:
    """All columns, by topic and day, in one process and in one for each processor."""
    from reput_arrow.export.exporter.exportjob import export
    from reput_tools.offline import LocalEngine

    trial.warm_up()
    target = trial.directory / form
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        label = f"reput export, {form}, {jobs} process{'es' * (jobs > 1)}"
        with (
            LocalEngine(jobs) as engine,
            trial.timed(label, 0, baseline=jobs == 1, descendants=True) as measured,
        ):
            done = export(str(trial.big_log), target, engine, form=form)
        measured.count, measured.size = done.message_count, done.size
        measured.facts["written"] = f"{done.written_size / 1e6:.0f} MB in {done.file_count} files"
        shutil.rmtree(target)


def imports(trial: Trial) -> None:
    """A store of Parquet, its log alone; all cores export, one process imports."""
    from reput_arrow.export.exporter.exportjob import export
    from reput_arrow.export.importer.importjob import import_
    from reput_tools.offline import LocalEngine

    trial.warm_up()
    files, store = trial.directory / "parquet", trial.directory / "imported"
    with LocalEngine(os.cpu_count()) as engine:
        export(str(trial.big_log), files, engine)
    with trial.timed("reput import, parquet", 0, baseline=True, descendants=True) as measured:
        done = import_(files, store, dispatch=False)
    measured.count, measured.size = done.record_count, done.end_offset
    shutil.rmtree(files)
    shutil.rmtree(store)

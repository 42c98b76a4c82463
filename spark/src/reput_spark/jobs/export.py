"""Export logs to Parquet: files by topic and day, written by the tasks that read the splits.

    target/topic=orders/day=2026-01-31/00000000000000000000-5f0c….parquet

Everything is written in a directory beside the target. In the end the files of attempts that do
not count are removed, and the directory gets the target's name: a reader of the target sees nothing
of an export, or all of it.
"""

from __future__ import annotations

import functools
import itertools
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from reput.log import SPLIT_SIZE
from reput_arrow import COLUMNS, schema_of, to_arrow
from reput_arrow.reading.tasks import Task
from reput_spark.errors import SparkReputError
from reput_spark.jobs.splits import batches_of, plan

if TYPE_CHECKING:
    from reput.record import Corruption, DispatchBatch
    from reput_rebuild.engine import Engine

__all__ = ["Exported", "export"]

_DAY_MS: Final = 86_400_000
_GROUP_SIZE: Final = 32 << 20
"""Bytes of a row group, about, before it is compressed."""
_HELD_SIZE: Final = 128 << 20
"""Bytes that one task keeps in memory for all of its files."""
_WITHOUT_RENAME: Final = ("s3", "gcs", "abfs")
_NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


@attrs.frozen
class Exported:
    """What was written."""

    message_count: int
    size: int
    """Bytes of the logs."""
    file_count: int
    written_size: int
    """Bytes of the files."""
    damage_count: int = 0
    """Places of the logs that were left out, as they are damaged."""


@attrs.frozen
class _Written:
    """What one attempt of a task has written."""

    message_count: int
    files: tuple[str, ...]
    """Below the staging directory."""
    damage_count: int


def export(
    paths: str | Sequence[str],
    target: str,
    engine: Engine,
    *,
    columns: Iterable[str] | None = None,
    split_size: int = SPLIT_SIZE,
    corrupt: str = "fail",
    compression: str = "zstd",
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write the messages of logs as Parquet files, a directory for each topic and UTC day stored.

    Args:
        paths: as for reading.
        target: a directory that is not there yet, or a URI that `pyarrow.fs` knows; the same place
            for all processes that run tasks.
        engine: `reput_spark.jobs.engine.SparkEngine`, or `reput_rebuild.engine.LocalEngine`.
        columns: of `reput_arrow.COLUMNS`; all when left out. The topic is in names of directories.
        split_size: bytes of the log in a task, about.
        corrupt: ``"fail"``, or ``"skip"`` to leave out what is damaged.
        compression: as Parquet calls it.
        progress: called with bytes done and bytes in all.

    Raises:
        SparkReputError: no log at a path, something at the target, damage, or a task that failed.
            Nothing is left at the target.
    """
    names = [each.name for each in COLUMNS] if columns is None else list(columns)
    try:
        schema_of(names)
    except ValueError as error:
        raise SparkReputError("OPTION", str(error)) from None
    if "://" not in target:
        target = os.path.abspath(target)  # executors are in other directories
    system, directory = _place(target)
    if system.type_name in _WITHOUT_RENAME:
        raise SparkReputError(
            "OPTION",
            f"{target}: {system.type_name} cannot rename a directory, so that half an export could "
            "be seen; export elsewhere and copy it, or write the DataFrame of a read with Spark",
        )
    if system.get_file_info(directory).type != fs.FileType.NotFound:
        raise SparkReputError("OPTION", f"{target}: there is something already; name another place")
    tasks = plan(paths, engine.parallelism, split_size, corrupt=corrupt)
    size = sum(task.size for task in tasks)
    told = progress or (lambda done, total: None)
    staging = f"_{uuid.uuid4().hex}.staging"
    aside = _beside(directory, staging)
    work = functools.partial(_write, _Order(target, staging, tuple(names), corrupt, compression))
    try:
        system.create_dir(aside)
        written: list[_Written] = engine.run(work, tasks, lambda done: told(done, size))
        files = {f"{aside}/{name}" for each in written for name in each.files}
        sizes = _drop_others(system, aside, files)
        with system.open_output_stream(f"{aside}/_SUCCESS"):
            pass
        system.move(aside, directory)
    except BaseException:
        if system.get_file_info(aside).type != fs.FileType.NotFound:
            system.delete_dir(aside)
        raise
    return Exported(
        sum(each.message_count for each in written),
        size,
        len(files),
        sizes,
        sum(each.damage_count for each in written),
    )


def _place(target: str) -> tuple[Any, str]:
    """Return the target's file system, and its path there."""
    if "://" in target:
        system, path = fs.FileSystem.from_uri(target)
        return system, path
    return fs.LocalFileSystem(), target


def _beside(directory: str, name: str) -> str:
    """Return the path of ``name`` beside a directory."""
    return f"{directory.rstrip('/').rpartition('/')[0]}/{name}"


def _drop_others(system: Any, aside: str, files: set[str]) -> int:
    """Remove files that are not among ``files``: of attempts that do not count.

    Returns:
        Bytes of ``files``.

    Raises:
        SparkReputError: a file that was written is not there.
    """
    found = system.get_file_info(fs.FileSelector(aside, recursive=True))
    sizes = {each.path: each.size for each in found if each.type == fs.FileType.File}
    for path in sizes.keys() - files:
        system.delete_file(path)
    missing = files - sizes.keys()
    if missing:
        raise SparkReputError(
            "JOB",
            f"{min(missing)}: a task has written this file, and it is not there; the target must "
            "be the same place for the driver and for all executors",
        )
    return sum(sizes[path] for path in files)


# ---------------------------------------------------------------------- one split


@attrs.frozen
class _Order:
    """What every task of an export must know; plain values."""

    target: str
    staging: str
    columns: tuple[str, ...]
    corrupt: str
    compression: str


@attrs.define(eq=False)
class _File:
    """One file that is being written: rows come in, row groups go out."""

    path: str
    rows: list[pa.RecordBatch] = attrs.field(factory=list)
    size: int = 0
    writer: Any = None


class _Files:
    """The files of one attempt of a task."""

    def __init__(self, order: _Order, split: str) -> None:
        self._system, directory = _place(order.target)
        self._root = _beside(directory, order.staging)
        self._order = order
        self._name = f"{split}-{uuid.uuid4().hex}.parquet"
        self._schema = schema_of([name for name in order.columns if name != "topic"])
        self._files: dict[tuple[str, int], _File] = {}
        self._held = 0

    def add(self, topic: str, day: int, rows: pa.RecordBatch) -> None:
        """Take rows of one topic and day."""
        file = self._files.get((topic, day))
        if file is None:
            date = np.datetime64(day, "D")
            name = f"topic={quote(topic, safe='') or _NO_NAME}/day={date}/{self._name}"
            file = self._files[topic, day] = _File(name)
        file.rows.append(rows)
        size = rows.get_total_buffer_size()
        file.size += size
        self._held += size
        if file.size >= _GROUP_SIZE:
            self._put_out(file)
        if self._held >= _HELD_SIZE:
            for each in sorted(self._files.values(), key=lambda each: -each.size):
                self._put_out(each)
                if self._held < _HELD_SIZE // 2:
                    break

    def _put_out(self, file: _File) -> None:
        if not file.rows:
            return
        if file.writer is None:
            if self._system.get_file_info(self._root).type == fs.FileType.NotFound:
                # An attempt that outlives its job must not make that directory again.
                raise SparkReputError("JOB", f"{self._root}: the export is over")
            path = f"{self._root}/{file.path}"
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            file.writer = pq.ParquetWriter(
                path,
                self._schema,
                filesystem=self._system,
                compression=self._order.compression,
            )
        table = pa.Table.from_batches(file.rows, self._schema)
        file.writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._held -= file.size
        file.rows, file.size = [], 0

    def close(self) -> tuple[str, ...]:
        """Write what is left, and return the names of the files."""
        for file in self._files.values():
            self._put_out(file)
            file.writer.close()
        return tuple(file.path for file in self._files.values())


def _write(order: _Order, task: Task, report: Callable[[int], None]) -> _Written:
    store = uuid.uuid5(uuid.NAMESPACE_URL, task.place.directory).hex[:8]
    files = _Files(order, f"{task.split.start_offset:020d}-{store}")
    count = 0
    damages: list[Corruption] = []
    for batch in batches_of(task, report, order.corrupt, damages.append):
        count += len(batch)
        _add(files, batch, order.columns)
    return _Written(count, files.close(), len(damages))


def _add(files: _Files, batch: DispatchBatch, columns: Sequence[str]) -> None:
    """Sort the rows of a window by topic and day, and hand each run on."""
    made = to_arrow(batch, [name for name in columns if name != "topic"])
    days = batch.store_timestamp // _DAY_MS
    codes = batch.topic_code.astype(np.int64)
    first_day = int(days.min())
    key = codes * (int(days.max()) - first_day + 1) + (days - first_day)
    if (key == key[0]).all():
        files.add(batch.topics[int(codes[0])], int(days[0]), made)
        return
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    borders = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for start, stop in itertools.pairwise(borders):
        rows = order[start:stop]
        part = made.take(pa.array(rows))
        files.add(batch.topics[int(codes[rows[0]])], int(days[rows[0]]), part)

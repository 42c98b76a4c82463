"""Verify logs: every record's structure, own offset and checksum, in tasks.

Splits are read in two rounds (`reput_rebuild.rounds`); this module says what is read of one, and
what a damage is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from reput.errors import CorruptFileError
from reput.log import SPLIT_SIZE, read_split
from reput.record import CorruptionKind
from reput_arrow.logs.opening import open_log
from reput_arrow.logs.place import COMMIT_LOG
from reput_arrow.reading.tasks import Task
from reput_rebuild.rounds import read_in_rounds
from reput_spark.jobs.splits import plan

if TYPE_CHECKING:
    from reput.log import LogReader
    from reput_rebuild.engine import Engine

__all__ = ["DAMAGE_SCHEMA", "Damage", "Verified", "verify"]

DAMAGE_SCHEMA = pa.schema(
    [
        pa.field("store", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("physical_offset", pa.int64(), nullable=False),
        pa.field("end_offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)
"""Columns of the report: one row for each damage."""


@attrs.frozen
class Damage:
    """Bytes of a log that are no records; plain values."""

    store: str
    file: str
    position: int
    """File position, bytes."""
    physical_offset: int
    end_offset: int
    """Where the log goes on."""
    reason: str
    """Name of a `reput.record.CorruptionKind`; ``TAIL`` for bytes after the last record."""
    detail: str

    @property
    def size(self) -> int:
        """Bytes that are damaged."""
        return self.end_offset - self.physical_offset


@attrs.frozen
class Verified:
    """What came of a verification."""

    message_count: int
    size: int
    """Bytes of the logs."""
    split_count: int
    damages: tuple[Damage, ...]

    def table(self) -> pa.Table:
        """Return the report as a table of `DAMAGE_SCHEMA`, oldest damage first."""
        columns = {
            field.name: pa.array([getattr(each, field.name) for each in self.damages], field.type)
            for field in DAMAGE_SCHEMA
        }
        return pa.table(columns, schema=DAMAGE_SCHEMA)

    def frame(self, spark: Any) -> Any:
        """Return the report as a DataFrame."""
        return spark.createDataFrame(self.table())


@attrs.frozen
class _Checked:
    """What came of one task."""

    message_count: int
    damages: tuple[Damage, ...] = ()
    is_sound: bool = True


def verify(
    paths: str | Sequence[str],
    engine: Engine,
    *,
    split_size: int = SPLIT_SIZE,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Read every record of the logs that paths lead to.

    What a store's writer has found and repaired is no damage any more; ``reput losses`` shows it.

    Args:
        paths: as for reading.
        engine: `reput_spark.jobs.engine.SparkEngine`, or `reput_rebuild.engine.LocalEngine`.
        split_size: bytes of the log in a task, about.
        progress: called with bytes done and bytes in all; what is read twice counts twice.

    Returns:
        How much was read, and each damage.

    Raises:
        SparkReputError: no log at a path, or a task that failed.
    """
    tasks = plan(paths, engine.parallelism, split_size)
    told = progress or (lambda done, total: None)
    found: list[tuple[Task, _Checked]] = read_in_rounds(
        tasks, engine, _check, _search, _to_the_end, told
    )
    damages = [damage for _, each in found for damage in each.damages]
    damages += _tails([*tasks, *(task for task, _ in found)])
    return Verified(
        sum(each.message_count for _, each in found),
        sum(task.size for task in tasks),
        len(tasks),
        tuple(sorted(damages, key=lambda each: (each.store, each.physical_offset))),
    )


def _check(task: Task, report: Callable[[int], None]) -> _Checked:
    """Read one split, which most often is sound."""
    count = 0
    with open_log(task.place, task.log_end) as log:
        try:
            for batch in read_split(log, task.split, check_crc=True):
                count += len(batch)
                report(batch.end_offset - task.split.start_offset)
        except CorruptFileError:
            return _Checked(0, is_sound=False)
    return _Checked(count)


def _to_the_end(task: Task) -> Task:
    """Return a stretch at the log's end with the end that all of the last file shows.

    The quick look begins at a border near the end; where splits are not sound, that border may have
    been the work of a body, too. A stretch before the end stays as it is.
    """
    if task.split.end_offset < task.log_end:
        return task
    with open_log(task.place) as log:
        end = max(log.max_physical_offset, task.split.start_offset)
    return attrs.evolve(task, split=attrs.evolve(task.split, end_offset=end), log_end=end)


def _search(task: Task, report: Callable[[int], None]) -> _Checked:
    """Read a stretch that is not sound, in one piece, and name each damage."""
    split, count = task.split, 0
    damages: list[Damage] = []
    with open_log(task.place, task.log_end) as log:
        for batch in log.scan(split.start_offset, split.end_offset, check_crc=True):
            if len(batch) and damages and damages[-1].end_offset < 0:
                damages[-1] = attrs.evolve(damages[-1], end_offset=batch.start_offset)
            count += len(batch)
            found = batch.finding
            if found is not None:
                if damages and damages[-1].end_offset < 0:
                    damages[-1] = attrs.evolve(damages[-1], end_offset=found.physical_offset)
                damages.append(
                    _damage(task, log, found.physical_offset, found.reason, found.detail)
                )
            report(batch.end_offset - split.start_offset)
    if damages and damages[-1].end_offset < 0:
        damages[-1] = attrs.evolve(damages[-1], end_offset=split.end_offset)
    return _Checked(count, tuple(damages))


def _damage(task: Task, log: LogReader, offset: int, reason: CorruptionKind, detail: str) -> Damage:
    path, position = log.path_of(offset)
    return Damage(
        task.place.store, path, position, offset, -1, reason.name, f"{reason.value} ({detail})"
    )


def _tails(tasks: Sequence[Task]) -> Iterator[Damage]:
    """Find bytes after the last record of a log: torn by a crash, or being written just now."""
    ends = {task.place: task.log_end for task in tasks}  # of two looks, the later one counts
    for place, end in ends.items():
        if place.kind != COMMIT_LOG or place.only_base is not None:
            continue
        with open_log(place, end) as log:
            if not log.size_at(end):
                continue
            path, position = log.path_of(end)
            base = log.files.base_of(end)
            stop = end if base is None else base + log.file_size
            detail = "bytes that are no record, to the end of the file at most"
            yield Damage(place.store, path, position, end, stop, "TAIL", detail)

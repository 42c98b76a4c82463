"""Verify logs: a read that collects damage, and what lies around each damage.

Spark reads every record with its checksum and counts; each damaged place comes as a row. The driver
then looks at these places, which are few, and reports the damage and where the log goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_arrow.addedcolumns import DAMAGE_COLUMN, STORE_COLUMN
from reput_arrow.logs.logopening import open_log
from reput_arrow.logs.logplace import COMMIT_LOG
from reput_arrow.reader.wholelogs import plan
from reput_spark.errors import reading_with_code
from reput_spark.jobs.sparkengine import collected
from reput_spark.source.dataframes import absolute_paths, read

if TYPE_CHECKING:
    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.logs.openlog import OpenLog

_SCHEMA: Final = (
    "store string NOT NULL, file string NOT NULL, position long NOT NULL, "
    "physical_offset long NOT NULL, end_offset long NOT NULL, size long NOT NULL, "
    "reason string NOT NULL, detail string NOT NULL"
)


@attrs.frozen
class Damage:
    """Bytes of a log that are not records; plain values."""

    store: str
    file: str
    position: int
    """File position, bytes."""
    physical_offset: int
    end_offset: int
    """Where the log goes on."""
    reason: str
    """Name of a `reput.record.CorruptionKind`; ``TAIL`` for bytes after the last record, ``GONE``
    for what was damaged when it was read and is not any more."""
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
    damages: tuple[Damage, ...]

    def frame(self, spark: Any) -> Any:
        """Return a DataFrame with a row for each damage, oldest first: its fields, and its size."""
        rows = [{**attrs.asdict(each), "size": each.size} for each in self.damages]
        return spark.createDataFrame(rows, _SCHEMA)


def verify(
    spark: Any,
    paths: str | Sequence[str],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verified:
    """Read every record of the logs that paths lead to; each task reads a file of a log.

    Damage that a store's writer has repaired does not count; ``reput losses`` shows it.

    Args:
        spark: the session, also one of Spark Connect.
        paths: as for reading.
        progress: called with bytes done and bytes in all.

    Returns:
        How much was read, and each damage.

    Raises:
        SparkReputError: no log at a path, or a task that failed.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody does

    given = absolute_paths(paths)
    with reading_with_code():
        tasks = plan(given, 1, corrupt="skip")  # whole files, as they are read below
    size = sum(task.size for task in tasks)
    rows = read(
        spark, given, columns=[STORE_COLUMN, "physical_offset"], corrupt="collect", check_crc=True
    )
    found = rows.groupBy(STORE_COLUMN).agg(
        F.expr(f"count_if({DAMAGE_COLUMN} IS NULL)").alias("messages"),
        F.expr(f"collect_set(IF({DAMAGE_COLUMN} IS NULL, NULL, physical_offset))").alias("places"),
    )
    counted = {
        row[0]: (row.messages, sorted(row.places))
        for row in collected(found, lambda share: progress(round(size * share), size))
    }
    progress(size, size)
    damages: list[Damage] = []
    for place, end in {task.place: task.log_end for task in tasks}.items():
        with reading_with_code(), open_log(place, end) as log:
            _, places = counted.get(place.store, (0, []))
            low, high = log.min_physical_offset, log.max_physical_offset
            damages += [_described(place, log, each) for each in places if low <= each < high]
            damages += _tail(place, log)
    message_count = sum(count for count, _ in counted.values())
    damages.sort(key=lambda each: (each.store, each.physical_offset))
    return Verified(message_count, size, tuple(damages))


def _described(place: LogPlace, log: OpenLog, offset: int) -> Damage:
    """Read again what is damaged at ``offset``, up to the next record or the next damage."""
    path, position = log.path_of(offset)
    batches = log.scan(offset, check_crc=True)
    first = next(batches, None)
    finding = None if first is None else first.finding
    if finding is None or finding.physical_offset != offset:
        return Damage(place.store, path, position, offset, offset, "GONE", "it is valid by now")
    end = log.max_physical_offset
    for batch in batches:
        if len(batch):
            end = int(batch.physical_offset[0])
            break
        if batch.finding is not None:
            end = batch.finding.physical_offset
            break
    detail = f"{finding.reason.value} ({finding.detail})"
    return Damage(place.store, path, position, offset, end, finding.reason.name, detail)


def _tail(place: LogPlace, log: OpenLog) -> Iterator[Damage]:
    """Find bytes after the last record of a log: torn by a crash, or being written just now."""
    end = log.max_physical_offset
    if place.kind == COMMIT_LOG and place.only_base is None and log.size_at(end):
        path, position = log.path_of(end)
        base = log.files.base_of(end)
        stop = end if base is None else base + log.file_size
        detail = "bytes that are not a record, to the end of the file at most"
        yield Damage(place.store, path, position, end, stop, "TAIL", detail)

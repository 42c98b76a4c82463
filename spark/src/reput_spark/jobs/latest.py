"""The latest message of every key of a log, whether or not a topic is compacted.

Spark groups references, the physical offsets of messages, and never bodies: a message's physical
offset grows with its queue offset, so that the greatest is the latest. The references that are left
are sorted, and tasks read their messages from the log, each in a range of it.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.log import Split
from reput.record import RECORD_SIZE_MAX
from reput.record.layout import RECORD_MIN_SIZE
from reput_arrow.logs.opening import open_log
from reput_arrow.logs.place import COMMIT_LOG, LogPlace
from reput_arrow.reading.rows import Condition
from reput_arrow.reading.tasks import Task, batches_of, rows_of
from reput_export.columns import STORE_COLUMN
from reput_spark.errors import SparkReputError, reading_with_code
from reput_spark.reading.options import ReadOptions
from reput_spark.reading.tasks import find_logs

if TYPE_CHECKING:
    import os

    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from reput_arrow.logs.openlog import OpenLog

__all__ = ["Fetch", "latest"]

_STRETCH_SIZE = 64 << 20  # bytes of the log that are read for one group of messages
_GAP_MAX = 1 << 20  # reading so much for nothing is quicker than another read
_REFERENCE_COLUMNS = (STORE_COLUMN, "topic", "queue_id", "keys", "physical_offset", "sys_flag")
_ROLLED_BACK_OR_PREPARED = "(sys_flag & 12) IN (4, 12)"


def latest(
    spark: Any,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topic: str | Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    tombstones: bool = False,
    partitions: int | None = None,
) -> DataFrame:
    """Return the latest message of every key in each queue, as far as the log has it.

    A key is all words of ``keys`` in their order. Messages without one, and those of transactions
    that were not committed, are passed over. Needs no plugin, and changes nothing.

    Args:
        spark: the session, also one of Spark Connect.
        path: where: see `reput_arrow.logs.finding`; no DLedger.
        topic: of this topic only, or of these.
        columns: those wanted; all of a log, and the store, when left out.
        tombstones: also keys whose latest message has no body, which deletes them.
        partitions: tasks that read what was found; as Spark shuffles when left out.

    Raises:
        SparkReputError: no log at a path, or one of DLedger's; no such column.
    """
    from reput_spark.source.frames import absolute_paths, read
    from reput_spark.source.schema import plain_arrow_schema, spark_schema

    texts = absolute_paths(path)
    places = tuple(find_logs(texts))
    for place in places:
        if place.kind != COMMIT_LOG:
            raise SparkReputError("OPTION", f"{place.directory}: no commit log, but DLedger's")
        if sum(each.store == place.store for each in places) > 1:
            raise SparkReputError("OPTION", f"{place.store}: more than one log; name one of them")
    options: dict[str, Any] = {} if topic is None else {"topic": topic}
    found = read(spark, texts, columns=_REFERENCE_COLUMNS, **options)
    found = found.where(f"size(keys) > 0 AND NOT {_ROLLED_BACK_OR_PREPARED}")
    places_of = found.groupBy("store", "topic", "queue_id", "keys").agg({"physical_offset": "max"})
    references = places_of.selectExpr("store", "`max(physical_offset)` AS physical_offset")
    order = ("store", "physical_offset")
    split = (
        references.repartitionByRange(partitions, *order)
        if partitions
        else references.repartitionByRange(*order)
    ).sortWithinPartitions(*order)
    wanted = spark_schema("*" if columns is None else _with_body(columns))
    fetch = _column(Fetch(places, plain_arrow_schema(wanted)), wanted)
    rows: DataFrame = split.select(fetch("store", "physical_offset").alias("row")).select("row.*")
    if not tombstones:
        rows = rows.where("length(body) > 0")
    return rows if columns is None else rows.select(*columns)


def _column(fetch: Fetch, schema: StructType) -> Any:
    """Return ``fetch`` as a function over columns, which Spark calls with Arrow's arrays.

    `mapInArrow` would do, but needs pandas.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def rows_at(
        columns: Iterator[tuple[pa.Array, pa.Array]],
    ) -> Iterator[pa.Array]:
        return fetch(columns)

    rows_at.__annotations__ = {
        "columns": Iterator[tuple[pa.Array, pa.Array]],
        "return": Iterator[pa.Array],
    }
    # Though it is deterministic: Spark would call it a second time, before the places are sorted,
    # for a condition on its columns that follows.
    make: Any = arrow_udf  # its stub knows functions over iterators for plain types only
    return make(rows_at, schema).asNondeterministic()


def _with_body(columns: Sequence[str]) -> list[str]:
    """Return ``columns`` and the body, which tells tombstones."""
    return [*columns, *({"body"} - set(columns))]


@attrs.frozen
class Fetch:
    """Reads messages whose physical offsets are known; sent to executors."""

    places: tuple[LogPlace, ...]
    schema: pa.Schema

    def __call__(self, columns: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.StructArray]:
        """Read a message for each store and offset; the offsets of each store ascend."""
        for stores, offsets in columns:
            names = np.array(stores.to_pylist(), object)
            numbers = offsets.to_numpy()
            borders = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
            for low, high in itertools.pairwise(borders):
                if high > low:
                    place = next(each for each in self.places if each.store == names[low])
                    with reading_with_code():
                        for batch in self._read(place, numbers[low:high]):
                            yield batch.to_struct_array()

    def _read(self, place: LogPlace, offsets: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        options = ReadOptions(paths=(place.directory,))
        # Where the log ends was known when these were found; to look again would read a file.
        with open_log(place, int(offsets[-1]) + RECORD_SIZE_MAX) as log:
            for stretch in _stretches(offsets):
                end = int(stretch[-1]) + _size_at(log, int(stretch[-1]))
                split = Split(0, int(stretch[0]), end)
                condition = Condition("physical_offset", "in", tuple(stretch.tolist()))
                yield from rows_of(
                    batches_of(log, split, options),
                    Task(place, split, end),
                    options,
                    self.schema,
                    (condition,),
                )


def _size_at(log: OpenLog, offset: int) -> int:
    """Return the bytes of the record at ``offset``, which was found there a moment ago."""
    data = log.read(offset, 4)
    size = struct.unpack(">i", data)[0] if len(data) == 4 else 0
    if size < RECORD_MIN_SIZE:
        path, at = log.path_of(offset)
        raise SparkReputError("DAMAGED", f"{path}, byte {at}: the log has lost this since")
    return int(size)


def _stretches(offsets: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Cut offsets into groups that are near each other, each of which is read at once."""
    groups = (offsets - offsets[0]) // _STRETCH_SIZE
    far = (np.diff(offsets) > _GAP_MAX) | (np.diff(groups) > 0)
    yield from np.split(offsets, np.flatnonzero(far) + 1)

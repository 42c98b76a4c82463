"""Segments: rows of one task, kept until the driver puts them.

    <store>/reput/spark/query-<id>/<batch>-<partition>-<attempt>-<anything>.arrow    of a stream
    <store>/reput/spark/write-<id>/…                                                 of a DataFrame

Each attempt of a task writes a file of its own, an Arrow stream, and says its name when it is on
disk. What a store would refuse is refused here, where nothing is in the log yet.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from reput.errors import CorruptFileError, MessageIllegalError, PutError
from reput_arrow import columns_of
from reput_arrow.addedcolumns import ADDED_COLUMNS
from reput_arrow.logwriter.stagingdirectories import is_name, path_of, spark_directory
from reput_spark.errors import SparkReputError
from reput_spark.writer.options import SinkOptions, is_key
from reput_spark.writer.reconciliation.stamps import stamp_size
from reput_spark.writer.rows import Limits, RowCheck, put_form

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_arrow.logwriter.staging.writetasks import WritePlan

_NAME: Final = re.compile(r"(\d{20})-(\d{5,10})-[0-9a-f-]{1,80}\.arrow")
_UNKNOWN_BATCH: Final = (1 << 63) - 1


@attrs.frozen
class TaskFacts:
    """Which attempt of which task it is."""

    query_id: str
    """Or the option ``txn_app_id``, or the name of a staging directory."""
    batch_id: int | None
    """None where Spark does not say; the file's name does not have it then."""
    partition: int
    attempt: int


@attrs.frozen
class Segment:
    """What one task has written; plain values."""

    key: str
    """Who writes: the query's id, the option ``txn_app_id``, or the name of a staging directory."""
    partition: int
    name: str = ""
    """Of the file; empty where there was no row."""
    row_count: int = 0
    size: int = 0
    """Bytes."""


def directory_of(root: str, key: str) -> str:
    """Return the directory of a query or a write, with its segments, and what it knows of them.

    Raises:
        SparkReputError: the key must not lead elsewhere.
    """
    if is_name(key):
        return path_of(root, key)
    if not is_key(key):
        raise SparkReputError("JOB", f"{key!r} is not an id of a query")
    return os.path.join(spark_directory(root), f"query-{key}")


def batch_of_name(name: str) -> int | None:
    """Return the batch in a file's name; None if it is not a segment of a known batch."""
    found = _NAME.fullmatch(name)
    batch = None if found is None else int(found[1])
    return None if batch == _UNKNOWN_BATCH else batch


# --------------------------------------------------------------------------- writing


def write_segment(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, task: TaskFacts, disk: Disk
) -> Segment:
    """Write the rows of one attempt of a task of a stream.

    Returns:
        What was written; it is on disk, and its name is.

    Raises:
        SparkReputError: a row that the store would refuse; nothing is left of the attempt.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    bound = disk.at(options.path, follow_links=options.follow_links)
    key = options.txn_app_id or task.query_id
    task = attrs.evolve(task, query_id=key)
    limits = Limits.of(options.path, bound, options.file_size)
    check = RowCheck(limits, stamp_size(key) if options.stamp else 0)

    def make(directory: str) -> None:
        # With those above the store, which are not its own.
        disk.make_directory(options.path, durable=True)
        bound.make_directory(directory, durable=True)

    return _write(_checked(batches, check, task), options.path, task, bound, make)


def stage_segment(
    batches: Iterable[pa.RecordBatch], plan: WritePlan, partition: int, attempt: int, disk: Disk
) -> Segment:
    """Write the rows of one attempt of a task of a DataFrame's; see `write_segment`.

    Raises:
        SparkReputError: a row that the store would refuse, or no staging directory.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    options, task = plan.options, TaskFacts(plan.staging, 0, partition, attempt)
    bound = disk.at(plan.root, follow_links=options.follow_links)
    limits = Limits(plan.file_size, plan.max_message_size, plan.store_host, plan.record_crc)
    check = RowCheck(limits, stamp_size(options.write_id or plan.staging) if options.stamp else 0)
    rows = _checked(batches, check, task, as_given=bool(options.keep or options.raw))
    try:
        return _write(rows, plan.root, task, bound, lambda directory: None)
    except FileNotFoundError as error:
        raise SparkReputError(
            "JOB",
            f"{error}; the store must have the same path for the driver and for all executors, "
            "and the write must not be over",
        ) from error


def _checked(
    batches: Iterable[pa.RecordBatch], check: RowCheck, task: TaskFacts, *, as_given: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield rows as they are put, or as they were given, when they are checked."""
    first = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        try:
            columns = columns_of(batch, ADDED_COLUMNS)
            check(columns)
        except (PutError, MessageIllegalError, ValueError) as error:
            raise SparkReputError(
                "ROW",
                f"partition {task.partition}, in the {batch.num_rows} rows from row {first} on: "
                f"{error}. Nothing of this batch was put",
            ) from error
        yield batch if as_given else put_form(batch, columns)
        first += batch.num_rows


def _write(
    batches: Iterable[pa.RecordBatch],
    root: str,
    task: TaskFacts,
    disk: Disk,
    make: Callable[[str], None],
) -> Segment:
    directory = directory_of(root, task.query_id)
    batch_id = _UNKNOWN_BATCH if task.batch_id is None else task.batch_id
    name = f"{batch_id:020d}-{task.partition:05d}-{task.attempt:x}-{uuid.uuid4()}.arrow"
    path, row_count = os.path.join(directory, name), 0
    with contextlib.ExitStack() as stack:
        file: _DiskFile | None = None
        writer: Any = None
        for batch in batches:
            if file is None:
                make(directory)
                file = stack.enter_context(_DiskFile(disk, path))
                writer = pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
            row_count += batch.num_rows
        if file is None:
            return Segment(task.query_id, task.partition)
        writer.close()
        file.keep()
        disk.flush_directory(directory)
        return Segment(task.query_id, task.partition, name, row_count, file.position)


class _DiskFile(io.RawIOBase):
    """A file that is written from its beginning to its end; removed unless it is kept."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path, self._kept = disk, path, False
        self.position = 0
        self._descriptor = disk.create_fresh(path)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._disk.write(self._descriptor, view, self.position)
        self.position += len(view)
        return len(view)

    def keep(self) -> None:
        """Return when all of it is on disk."""
        self._disk.flush(self._descriptor)
        self._kept = True

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._disk.close(self._descriptor)
            if not self._kept:
                self._disk.remove(self._path)


# --------------------------------------------------------------------------- reading


def read_segment(root: str, segment: Segment, disk: Disk) -> Iterator[pa.RecordBatch]:
    """Read the rows of a segment.

    Raises:
        SparkReputError: it is not there, or not what was written.
    """
    path = os.path.join(directory_of(root, segment.key), segment.name)
    if _NAME.fullmatch(segment.name) is None:
        raise SparkReputError("JOB", f"{segment.name!r} is not a name of a segment")
    try:
        descriptor = disk.open(path)
    except FileNotFoundError:
        raise SparkReputError(
            "JOB",
            f"{path}: a segment of {segment.row_count} rows is gone before they were all put. Run "
            "the batch again from its source; is the store's directory the same for all executors?",
        ) from None
    try:
        if disk.size(descriptor) != segment.size:
            raise CorruptFileError(
                path, disk.size(descriptor), f"{segment.size} bytes were written; {_AGAIN}"
            )
        with pa.ipc.open_stream(_DiskReader(disk, descriptor)) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        raise CorruptFileError(path, 0, f"{error}; {_AGAIN}") from error
    finally:
        disk.close(descriptor)


_AGAIN: Final = "run the batch again from its source"


class _DiskReader(io.RawIOBase):
    """A file that is read from its beginning to its end."""

    def __init__(self, disk: Disk, descriptor: int) -> None:
        self._disk, self._descriptor, self._position = disk, descriptor, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._disk.read_into(self._descriptor, memoryview(buffer), self._position)
        self._position += count
        return count

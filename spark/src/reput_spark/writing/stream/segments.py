"""Segments: rows of one task of a stream into a store, kept until the batch is committed.

    <store>/reput/spark/query-<id>/<batch>-<partition>-<attempt>-<anything>.arrow

Each attempt of a task writes a file of its own, an Arrow stream, and says its name when it is on
disk. What a store would refuse is refused here, where nothing is in the log yet.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from reput.errors import CorruptFileError, MessageIllegalError, MessageTooLargeError, PutError
from reput.log import LOG_SECTION, CommitLogConfig
from reput.offline import look
from reput.plugin import build_config
from reput.record import Encoder, inner_message_count, pack_host, prepare_columns
from reput.record.layout import BLANK_MIN_SIZE
from reput_arrow import columns_of
from reput_export.columns import ADDED_COLUMNS
from reput_export.writing.directories import spark_directory
from reput_spark.errors import SparkReputError
from reput_spark.writing.stream.options import SinkOptions, is_key

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput.record import Columns

__all__ = [
    "Segment",
    "TaskFacts",
    "batch_of_name",
    "directory_of",
    "read_segment",
    "write_segment",
]

_NAME: Final = re.compile(r"(\d{20})-(\d{5,10})-[0-9a-f-]{1,80}\.arrow")
_UNKNOWN_BATCH: Final = (1 << 63) - 1


@attrs.frozen
class TaskFacts:
    """Which attempt of which task it is."""

    query_id: str
    batch_id: int | None
    """None where Spark does not say; the file's name does not tell it then."""
    partition: int
    attempt: int


@attrs.frozen
class Segment:
    """What one task has written; plain values."""

    key: str
    """Who writes: the query's id, or the option ``txn_app_id``."""
    partition: int
    name: str = ""
    """Of the file; empty where there was no row."""
    row_count: int = 0
    size: int = 0
    """Bytes."""


def directory_of(root: str, key: str) -> str:
    """Return the directory of one query, with its segments, and what it knows of its batches.

    Raises:
        SparkReputError: the key must not lead elsewhere.
    """
    if not is_key(key):
        raise SparkReputError("JOB", f"{key!r} is no id of a query")
    return os.path.join(spark_directory(root), f"query-{key}")


def batch_of_name(name: str) -> int | None:
    """Return the batch that a file's name tells; None where it is no segment of a known batch."""
    found = _NAME.fullmatch(name)
    batch = None if found is None else int(found[1])
    return None if batch == _UNKNOWN_BATCH else batch


# --------------------------------------------------------------------------- writing


def write_segment(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, task: TaskFacts, disk: Disk
) -> Segment:
    """Write the rows of one attempt of a task.

    Returns:
        What was written; it is on disk, and its name is.

    Raises:
        SparkReputError: a row that the store would refuse; nothing is left of the attempt.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    outer, disk = disk, disk.at(options.path, follow_links=options.follow_links)
    key = options.txn_app_id or task.query_id
    directory = directory_of(options.path, key)
    batch_id = _UNKNOWN_BATCH if task.batch_id is None else task.batch_id
    name = f"{batch_id:020d}-{task.partition:05d}-{task.attempt:x}-{uuid.uuid4()}.arrow"
    path = os.path.join(directory, name)
    check, row_count = _Check(options, disk), 0
    with contextlib.ExitStack() as stack:
        file: _DiskFile | None = None
        writer: Any = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            check(batch, row_count, task)
            if file is None:
                # With those above the store, which are not its own.
                outer.make_directory(options.path, durable=True)
                disk.make_directory(directory, durable=True)
                file = stack.enter_context(_DiskFile(disk, path))
                writer = pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
            row_count += batch.num_rows
        if file is None:
            return Segment(key, task.partition)
        writer.close()
        file.keep()
        disk.flush_directory(directory)
        return Segment(key, task.partition, name, row_count, file.position)


class _Check:
    """Refuses what the store would refuse, by the store's own checks and limits."""

    def __init__(self, options: SinkOptions, disk: Disk) -> None:
        manifest = look(options.path, disk=disk).manifest
        section = {} if manifest is None else manifest.config.get(LOG_SECTION, {})
        config = build_config(CommitLogConfig, LOG_SECTION, section)
        host = pack_host(config.store_address, config.store_port)
        self._encoder = Encoder(host, config.max_message_size, record_crc=config.record_crc)
        file_size = config.file_size if manifest is not None else options.file_size
        self._size_max = (file_size or config.file_size) - BLANK_MIN_SIZE

    def __call__(self, batch: pa.RecordBatch, first: int, task: TaskFacts) -> None:
        try:
            columns = columns_of(batch, ADDED_COLUMNS)
            sizes = self._sizes(columns)
            row = int(sizes.argmax())
            if sizes[row] > self._size_max:
                reason = f"row {row}: bytes, in files of this size"
                raise MessageTooLargeError("record", int(sizes[row]), self._size_max, reason)
        except (PutError, MessageIllegalError, ValueError) as error:
            raise SparkReputError(
                "OPTION",
                f"partition {task.partition}, in the {batch.num_rows} rows from row {first} on: "
                f"{error}. Nothing of this batch was put",
            ) from error

    def _sizes(self, columns: Columns) -> npt.NDArray[np.int64]:
        prepared = prepare_columns(columns, self._encoder)
        if prepared is not None:
            return prepared.size
        # Rows of a rare kind go the way for single messages, with what that one refuses.
        singles = [self._encoder.prepare(each) for each in columns.to_messages()]
        for each in singles:
            if each[10]:
                inner_message_count(each)
        return np.array([each[0] for each in singles])


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
        raise SparkReputError("JOB", f"{segment.name!r} is no name of a segment")
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

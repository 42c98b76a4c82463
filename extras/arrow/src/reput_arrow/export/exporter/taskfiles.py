"""The files of one task: rows are sorted into them, and memory is bounded for all of them.

Everything is written in a staging directory. Names of files are those of no other attempt of the
task, so that attempts do not meet.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
from pyarrow import fs

from reput.errors import CodecNotFoundError, UnpackError
from reput_arrow import schema_of, to_arrow
from reput_arrow.codederrors import CodedError, reading_with_code
from reput_arrow.export.exporter.fileformats import open_writer, suffix_of
from reput_arrow.export.exporter.partitions import COLUMNS_OF_PARTS, parts_of
from reput_arrow.reader.rowfilter import wanted_rows
from reput_arrow.reader.wholelogs import batches_of

if TYPE_CHECKING:
    from reput.record import Corruption, DispatchBatch
    from reput_arrow.export.exporter.exportrequest import ExportRequest
    from reput_arrow.export.exporter.fileformats import Writer
    from reput_arrow.reader.readtasks import Task

GROUP_SIZE: Final = 32 << 20
"""Bytes of a row group, about, before it is compressed."""
HELD_SIZE: Final = 128 << 20
"""Bytes that one task keeps in memory for all of its files."""


@attrs.frozen
class Written:
    """What one attempt of a task has written."""

    message_count: int
    files: tuple[str, ...]
    """Below the staging directory."""
    damage_count: int


def place_of(target: str) -> tuple[Any, str]:
    """Return a target's file system, and its path there."""
    if "://" in target:
        system, path = fs.FileSystem.from_uri(target)
        return system, path
    return fs.LocalFileSystem(), target


def beside(directory: str, name: str) -> str:
    """Return the path of ``name`` beside a directory."""
    return f"{directory.rstrip('/').rpartition('/')[0]}/{name}"


def file_columns(order: ExportRequest) -> list[str]:
    """Return the columns that are in files, and not in names of directories."""
    in_names = {COLUMNS_OF_PARTS.get(part) for part in order.partition_by}
    return [name for name in order.columns if name not in in_names]


def write_task(order: ExportRequest, task: Task, report: Callable[[int], None]) -> Written:
    """Write the messages of one split.

    Raises:
        CodedError: damage that is not to be left out, or an export that is over.
    """
    store = uuid.uuid5(uuid.NAMESPACE_URL, task.place.directory).hex[:8]
    files = _Files(order, f"{task.split.start_offset:020d}-{store}")
    damages: list[Corruption] = []
    try:
        with reading_with_code():
            for batch in batches_of(task, report, order.selection, damages.append):
                files.add(batch)
        return Written(files.message_count, files.finish(), len(damages))
    finally:
        files.abandon()


@attrs.define(eq=False)
class _File:
    """One file that is being written: rows come in, row groups go out."""

    path: str
    rows: list[pa.RecordBatch] = attrs.field(factory=list)
    size: int = 0
    writer: Writer | None = None


class _Files:
    """The files of one attempt of a task."""

    def __init__(self, order: ExportRequest, split: str) -> None:
        self.message_count = 0
        self._system, directory = place_of(order.target)
        self._root = beside(directory, order.staging)
        self._order = order
        self._name = f"{split}-{uuid.uuid4().hex}{suffix_of(order.form, order.compression)}"
        self._schema = schema_of(file_columns(order))
        self._files: dict[str, _File] = {}
        self._held = 0

    def add(self, batch: DispatchBatch) -> None:
        """Take the rows of a batch that are wanted."""
        rows = wanted_rows(batch, self._order.selection)
        if rows is not None and not rows.any():
            return
        try:
            made = to_arrow(batch, self._schema, raw=self._order.selection.raw)
        except CodecNotFoundError:
            raise
        except UnpackError:
            if len(batch) <= 1:
                raise
            middle = len(batch) // 2  # the bodies are too large for one column, when unpacked
            self.add(batch[:middle])
            self.add(batch[middle:])
            return
        wanted = np.arange(len(batch)) if rows is None else np.flatnonzero(rows)
        self.message_count += len(wanted)
        for directory, numbers in parts_of(batch, wanted, self._order.partition_by):
            is_all = len(numbers) == len(batch)
            self._take(directory, made if is_all else made.take(pa.array(numbers)))

    def _take(self, directory: str, rows: pa.RecordBatch) -> None:
        file = self._files.get(directory)
        if file is None:
            file = self._files[directory] = _File(f"{directory}{self._name}")
        file.rows.append(rows)
        size = rows.get_total_buffer_size()
        file.size += size
        self._held += size
        if file.size >= GROUP_SIZE:
            self._put_out(file)
        if self._held >= HELD_SIZE:
            for each in sorted(self._files.values(), key=lambda each: -each.size):
                self._put_out(each)
                if self._held < HELD_SIZE // 2:
                    break

    def _put_out(self, file: _File) -> None:
        if not file.rows:
            return
        if file.writer is None:
            if self._system.get_file_info(self._root).type == fs.FileType.NotFound:
                # An attempt that outlives its job must not make that directory again.
                raise CodedError("JOB", f"{self._root}: the export is over")
            path = f"{self._root}/{file.path}"
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            file.writer = open_writer(
                self._order.form, self._system, path, self._schema, self._order.compression
            )
        file.writer.write(pa.Table.from_batches(file.rows, self._schema).combine_chunks())
        self._held -= file.size
        file.rows, file.size = [], 0

    def finish(self) -> tuple[str, ...]:
        """Write what is left, and return the names of the files."""
        for file in self._files.values():
            self._put_out(file)
            assert file.writer is not None
            file.writer.close()
            file.writer = None
        return tuple(file.path for file in self._files.values())

    def abandon(self) -> None:
        """Close the files that are open, after an error."""
        for file in self._files.values():
            if file.writer is not None:
                file.writer.close()
                file.writer = None

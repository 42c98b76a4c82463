"""Number log files: put physical offsets and queue offsets into records, once these are known.

A record says where it begins in the log, and which message of its queue it is. Tasks count both
from zero; here each file gets its place, each queue goes on where the store's queue ends, and the
numbers are put into all records of a file at once. The order is that of the partitions, and in each
partition that of its rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.files import Disk
from reput.record import crc32
from reput.record.layout import (
    BLANK_MAGIC,
    CRC_PROPERTY_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_CRC,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    VALUE_END,
)
from reput_arrow.logwriter.staging.rowscatter import gather, place_of, scatter
from reput_arrow.logwriter.staging.sidecarfiles import (
    NO_ORDINAL,
    first_ordinals,
    sidecar_parts,
)
from reput_arrow.logwriter.staging.writetasks import Segment, TaskWritten

if TYPE_CHECKING:
    import numpy.typing as npt

_PLACES_DTYPE: Final = np.dtype([("queue_offset", ">i8"), ("physical_offset", ">i8")])
"""Two fields of `reput.record.layout.HEADER_DTYPE` that stand side by side."""
_PLACE: Final = place_of("queue_offset")
_HEAD_DTYPE: Final = np.dtype([("size", ">i4"), ("magic", ">u4")])
"""The first two fields of `reput.record.layout.HEADER_DTYPE`."""
_WINDOW_SIZE: Final = 4 << 20
_DIGITS: Final = 10
_ROOM_SIZE: Final = 64 << 10
"""Bytes after the last record of a file that grows."""


@attrs.frozen(eq=False)
class NumberTask:
    """One file to be numbered; plain values."""

    path: str
    root: str
    """The store's directory."""
    follow_links: bool
    """As for `reput.open`."""
    base_offset: int
    """Where it will begin in the log."""
    first: npt.NDArray[np.int64]
    """``(groups,)``: by group, the queue offset of the message with ordinal 0."""
    segment: Segment
    file_size: int
    closes: bool
    """Whether another file follows, so that a blank closes this one."""
    record_crc: bool
    grows: bool = False
    """Whether the file may be short: the last one of a log whose files grow."""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.segment.used_size

    def __str__(self) -> str:
        return f"{self.path}, to begin at {self.base_offset}"


def number(
    written: Iterable[TaskWritten],
    root: str,
    directory: str,
    base_offset: int,
    next_offsets: Mapping[tuple[str, int], int],
    file_size: int,
    *,
    record_crc: bool,
    grows: bool = False,
    disk: Disk,
) -> list[NumberTask]:
    """Assign each file its place in the log, in the order of the partitions.

    Args:
        written: what the tasks have written, or what is left of it to be published.
        root: the store's directory.
        directory: the staging directory.
        base_offset: where the first file begins.
        next_offsets: next queue offsets of the store; other queues begin at 0.
        file_size: bytes of a file.
        record_crc: whether records end with a checksum over all of their bytes.
        grows: whether the log's last file may be short.
        disk: file operations; the files are numbered with links followed where it follows them.
    """
    following = dict(next_offsets)
    tasks: list[NumberTask] = []
    for each in sorted(written, key=lambda each: each.partition):
        paths = [os.path.join(directory, segment.name) for segment in each.segments]
        passed = _passed(each, paths, disk)
        keys = [(topic, queue_id) for topic, queue_id, _ in each.queues]
        first = np.array([following.get(key, 0) for key in keys], np.int64) - passed
        for (topic, queue_id, total), begin in zip(each.queues, first.tolist(), strict=True):
            following[topic, queue_id] = begin + total
        for path, segment in zip(paths, each.segments, strict=True):
            base = base_offset + len(tasks) * file_size
            tasks.append(
                NumberTask(
                    path,
                    root,
                    disk.follows_links,
                    base,
                    first,
                    segment,
                    file_size,
                    closes=True,
                    record_crc=record_crc,
                )
            )
    if tasks:  # the store goes on in the last one
        tasks[-1] = attrs.evolve(tasks[-1], closes=False, grows=grows)
    return tasks


def _passed(each: TaskWritten, paths: list[str], disk: Disk) -> npt.NDArray[np.int64]:
    """Return by group how many messages of a task are published already, in files before these."""
    totals = np.array([total for _, _, total in each.queues], np.int64)
    if not each.begun:
        return np.zeros(len(totals), np.int64)
    counts = [segment.record_count for segment in each.segments]
    lowest = first_ordinals(list(zip(paths, counts, strict=True)), disk, len(totals))
    return np.where(lowest < 0, totals, lowest)


def number_file(task: NumberTask, report: Callable[[int], None], disk: Disk | None = None) -> None:
    """Put the numbers into one file, close it with a blank, and flush it.

    Done twice, or for another place, it makes the same of the file: all that it needs stands in
    the sidecar.

    Raises:
        CorruptFileError: the file is not the one that a task has written.
        UnsafePathError: a link, where none is followed.
    """
    disk = (disk or Disk()).at(task.root, follow_links=task.follow_links)
    segment = task.segment
    log = disk.open(task.path, write=True)
    try:
        if disk.size(log) < segment.used_size:
            raise CorruptFileError(task.path, disk.size(log), "the file was cut")
        begin = 0
        for items in sidecar_parts(task.path, disk, segment.record_count):
            begin = _number_part(log, disk, task, items, begin, report)
        if begin != segment.used_size:
            raise CorruptFileError(task.path, 0, "the records do not fill what was written of it")
        if task.closes:
            left = task.file_size - segment.used_size
            disk.write(log, SIZE_AND_MAGIC.pack(left, BLANK_MAGIC), segment.used_size)
        end = segment.used_size + _ROOM_SIZE if task.grows else task.file_size
        disk.truncate(log, min(end, task.file_size))
        disk.flush(log)
    finally:
        disk.close(log)


def _number_part(
    log: int,
    disk: Disk,
    task: NumberTask,
    items: npt.NDArray[np.void],
    begin: int,
    report: Callable[[int], None],
) -> int:
    """Number the records that begin at file position ``begin``, and return where they end."""
    sizes = items["size"].astype(np.int64)
    ends = begin + np.cumsum(sizes)
    if int(ends[-1]) > task.segment.used_size or int(sizes.min()) < RECORD_MIN_SIZE:
        raise CorruptFileError(task.path, begin, "what stands beside it names other records")
    numbers = _numbers_of(task, items, ends - sizes)
    buffer = bytearray(max(min(_WINDOW_SIZE, int(ends[-1]) - begin), int(sizes.max())))
    done = 0
    while done < len(ends):
        # Windows of whole records, that stay in the processor's cache while they are changed.
        stop = int(np.searchsorted(ends, begin + len(buffer), "right"))
        end = int(ends[stop - 1])
        view = memoryview(buffer)[: end - begin]
        window = np.frombuffer(view, np.uint8)
        if disk.read_into(log, view, begin) != len(view):
            raise CorruptFileError(task.path, begin, "the file was cut while it was numbered")
        starts = (ends - sizes)[done:stop] - begin
        _check_heads(window, starts, sizes[done:stop], task, begin)
        scatter(window, starts + _PLACE, numbers[done:stop])
        if task.record_crc:
            _sum_up(buffer, starts.tolist(), sizes[done:stop].tolist())
        disk.write(log, view, begin)
        report(end)
        done, begin = stop, end
    return begin


def _numbers_of(
    task: NumberTask, items: npt.NDArray[np.void], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.void]:
    """Return what the records at file positions ``starts`` say; ``(n,)`` of `_PLACES_DTYPE`."""
    ordinals = items["ordinal"].astype(np.int64)
    numbers = np.empty(len(items), _PLACES_DTYPE)
    queue_offsets = task.first[items["group"].astype(np.int64)] + ordinals
    numbers["queue_offset"] = np.where(ordinals == NO_ORDINAL, 0, queue_offsets)
    numbers["physical_offset"] = task.base_offset + starts
    return numbers


def _check_heads(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    task: NumberTask,
    begin: int,
) -> None:
    """Refuse records that are not where they were written, before a number is put into one."""
    heads = gather(window, starts, _HEAD_DTYPE)
    wrong = (heads["size"] != sizes) | ~np.isin(heads["magic"], (MAGIC_V1, MAGIC_V2))
    if wrong.any():
        row = int(wrong.argmax())
        raise CorruptFileError(
            task.path,
            begin + int(starts[row]),
            f"a record of {int(heads['size'][row])} bytes with magic "
            f"{int(heads['magic'][row]):#010x} is found, where one of {int(sizes[row])} was "
            "written: what the task wrote has not come to the disk, or was changed; write again",
        )


def _sum_up(buffer: bytearray, starts: list[int], sizes: list[int]) -> None:
    """Write again the checksums with which records end; one C call for each, as in the encoder."""
    view = memoryview(buffer)
    for start, size in zip(starts, sizes, strict=True):
        end = start + size - CRC_PROPERTY_SIZE
        crc = crc32(view[start:end]) & 0x7FFFFFFF
        digits = str(crc)[::-1].ljust(_DIGITS, "0").encode()
        at = end + len(PROPERTY_CRC) + 1
        assert view[at + _DIGITS] == VALUE_END
        view[at : at + _DIGITS] = digits

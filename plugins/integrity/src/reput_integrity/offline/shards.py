"""Make sums from splits of the log, in parallel.

Each split writes its units aside, parted by the log's files; then the parts of one file are joined.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import Disk, file_name
from reput_integrity.checksumfiles import ChecksumFiles
from reput_integrity.checksumorigins import Origins
from reput_integrity.disputes import Disputes
from reput_integrity.layout import DIRECTORY, DISPUTES_NAME, ORIGINS_NAME, SUMS_NAME
from reput_integrity.recordchecksums import units_of

if TYPE_CHECKING:
    from reput.record import DispatchBatch
    from reput_integrity.olderchecksums import Judged, OlderChecksums
    from reput_integrity.recordchecksums import Units
    from reput_tools.offline import Split

logger = logging.getLogger(__name__)

_PARTS: Final = "parts"
"""Directory of the splits' units, next to the new files; removed when the rebuild ends."""
_COPY_SIZE: Final = 1 << 20


@attrs.frozen
class SplitSums:
    """Units of one split."""

    start: int
    end: int
    """Physical offset after the last record."""
    parts: tuple[tuple[int, str, int], ...]
    """Base of the log's file, path, and bytes."""


@attrs.frozen
class FileTask:
    """A file of sums that is to be built."""

    base: int
    parts: tuple[tuple[str, int], ...]
    """Path and bytes, in the order of the log."""


@attrs.define(eq=False)
class SumsScan:
    """Sums the records of one split."""

    directory: str
    start: int
    file_size: int
    disk: Disk
    _end: int = 0
    _open: dict[int, tuple[str, int, int]] = attrs.field(factory=dict)  # path, descriptor, bytes

    def add(self, batch: DispatchBatch) -> None:
        """See `reput_tools.offline.ShardScan.add`."""
        for units in units_of(batch, self.file_size):
            self._write(units)
            self._end = int(units.end[-1])

    def _write(self, units: Units) -> None:
        if units.base not in self._open:
            self.disk.make_directory(self.directory)
            name = f"{file_name(units.base)}-{self.start:020d}-{uuid.uuid4().hex}"
            path = os.path.join(self.directory, name)  # a second attempt of the task has another
            self._open[units.base] = (path, self.disk.open(path, create=True), 0)
        path, descriptor, size = self._open[units.base]
        data = units.encode()
        self.disk.write(descriptor, data, size)
        self._open[units.base] = (path, descriptor, size + len(data))

    def finish(self) -> SplitSums:
        """Return what the plan needs. Nothing is flushed: a crash ends the rebuild."""
        for _, descriptor, _ in self._open.values():
            self.disk.close(descriptor)
        parts = tuple((base, path, size) for base, (path, _, size) in self._open.items())
        return SplitSums(self.start, max(self._end, self.start), parts)


@attrs.define(eq=False)
class SumsBuilder:
    """Builds all files of sums; see `reput_tools.offline.ShardBuilder`."""

    older: OlderChecksums
    """The sums that are there."""
    clock: Callable[[], int]
    disk: Disk

    @property
    def file_size(self) -> int:
        """Bytes of a file of the log."""
        return self.older.files.file_size

    @property
    def directories(self) -> Sequence[str]:
        """The plugin's directory."""
        return (DIRECTORY,)

    def begin(self, split: Split, staging: str) -> SumsScan:
        """See `reput_tools.offline.ShardBuilder.begin`."""
        return SumsScan(f"{staging}/{_PARTS}", split.start_offset, self.file_size, self.disk)

    def plan(self, scanned: Sequence[SplitSums]) -> Sequence[FileTask]:
        """Return a task for each file of the log that has records."""
        parts: dict[int, list[tuple[str, int]]] = {}
        for split in scanned:
            for base, path, size in split.parts:
                parts.setdefault(base, []).append((path, size))
        return [FileTask(base, tuple(each)) for base, each in sorted(parts.items())]

    def build(self, task: FileTask, staging: str) -> Judged:
        """Join the parts of one file, and compare them with its older sums."""
        directory = f"{staging}/{DIRECTORY}/{SUMS_NAME}"
        self.disk.make_directory(directory)
        target = self.disk.open(f"{directory}/{file_name(task.base)}", create=True)
        try:
            written = 0
            for path, size in task.parts:
                self._copy(path, size, target, written)
                written += size
            self.disk.flush(target)
        finally:
            self.disk.close(target)
        return self.older.judge(ChecksumFiles(directory, self.disk, self.file_size).read(task.base))

    def _copy(self, path: str, size: int, target: int, at: int) -> None:
        source = self.disk.open(path)
        try:
            for position in range(0, size, _COPY_SIZE):
                data = self.disk.read(source, min(_COPY_SIZE, size - position), position)
                self.disk.write(target, data, at + position)
        finally:
            self.disk.close(source)

    def finish(self, scanned: Sequence[SplitSums], built: Sequence[Judged], staging: str) -> None:
        """Note which sums are new and which were denied, and bring the names to disk.

        What older sums agree with was summed when these were.
        """
        whole = f"{staging}/{DIRECTORY}"
        self.disk.make_directory(whole)
        origins, now = self.older.origins or Origins(), self.clock()
        for part in built:
            for start, end in part.new:
                origins.add(start, end, now)
        if scanned:
            start, end = min(each.start for each in scanned), max(each.end for each in scanned)
            origins.keep(start, end)
        self.disk.replace(f"{whole}/{ORIGINS_NAME}", origins.encode())
        disputes = Disputes(tuple(each for part in built for each in part.disputes))
        if disputes.rows:
            self.disk.replace(f"{whole}/{DISPUTES_NAME}", disputes.encode(now))
            logger.warning("the log is not what was summed records=%d", len(disputes.rows))
        if built:
            self.disk.flush_directory(f"{whole}/{SUMS_NAME}")
        self.disk.flush_directory(whole)
        self.disk.flush_directory(staging)

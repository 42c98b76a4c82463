"""Finds the commit logs that paths lead to, and opens them to be read.

A path may be a store's directory, a directory of log files, one log file, or a directory that
holds the stores of several brokers; in each place the log may be one that DLedger writes. No plugin
is needed, none of the derived files, and no checkpoint: the log says itself how far it goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import attrs

from reput.files import FilePool, MappedFileQueue, file_name, is_file_name, system_clock
from reput.log import LogReader
from reput.record.layout import BLANK_MAGIC, MAGIC_V1, MAGIC_V2
from reput_spark.errors import SparkReputError
from reput_spark.logs.arrowdisk import above, below, disk_of
from reput_spark.logs.ledgerentries import ENTRY_DTYPE

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["COMMIT_LOG", "LEDGER", "LogPlace", "OpenLog", "find_logs", "open_log"]

COMMIT_LOG = "commitlog"
"""Kind of a log: records one behind another."""
LEDGER = "dledger"
"""Kind of a log: each record is the body of a DLedger entry."""

_FILES_OPEN = 16
_NEAR_SIZE = 64 << 10
"""Bytes in which a border is looked for first; in most logs they hold many records."""
_WINDOW_SIZE = 4 << 20
"""Bytes decoded at a time, so that the columns of a window stay in the processor's cache."""
_CLOSED = "reput/closed"
"""Beside a log: there while no writer of ours is."""
_CLOCK_STEP_MS = 1_000
"""Clocks go back by so little without anybody noticing."""
_IN_WORK_MS = 60_000
"""No put takes so long."""
_PROBE_SIZE = 4 << 10
"""Bytes that are looked at to tell what is written from what is not yet."""
_ENTRY_HEAD_SIZE = ENTRY_DTYPE.itemsize
_KIND_SIZE = _ENTRY_HEAD_SIZE + 8
_ENTRY_MAGICS = (b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3")  # no record is so small


@attrs.frozen
class LogPlace:
    """Where one log is; plain values, made to be sent to executors."""

    store: str
    """What the user called it: the path that was given, or that of one of the stores below it."""
    directory: str
    """Where its files are, a URI where the path was one; else an absolute path."""
    file_size: int
    """Bytes of one file."""
    only_base: int | None = None
    """The one file to be read, where a file was named: the physical offset of its first byte."""
    kind: str = COMMIT_LOG
    """`COMMIT_LOG` or `LEDGER`."""


class OpenLog(LogReader):
    """A log that is open to be read; a context manager that closes its files.

    Executors run task after task in one process: files that stay open would add up.
    """

    def __init__(self, place: LogPlace) -> None:
        only = None if place.only_base is None else file_name(place.only_base)
        disk, directory = disk_of(place.directory, only)
        self._open_files = FilePool(disk, _FILES_OPEN)
        files = MappedFileQueue(directory, place.file_size, disk, self._open_files)
        files.load(writable=False)
        super().__init__(files, _WINDOW_SIZE)
        self._is_closed = disk.exists(f"{os.path.dirname(directory)}/{_CLOSED}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; batches that were taken stay as they are."""
        self._open_files.close()

    def next_record(self, start: int, end: int) -> int:
        """See `LogReader.next_record`; a log of terabytes has many cuts to look at."""
        near = min(start + _NEAR_SIZE, end)
        found = super().next_record(start, near)
        return found if found < near or near == end else super().next_record(start, end)

    def find_end(self, *, quickly: bool = False) -> None:
        """Look where the log ends, and keep that: what is written later is not read.

        Args:
            quickly: begin to look shortly in front of the end, and not where the last file begins.
                A border there can be the work of a body, so that the end is for those only who
                read with `read_split`: they must land on it, and fail where they do not.
        """
        last = self.last_written()
        start = self.files.min_offset if last is None else last
        if quickly and last is not None:
            start = self._border_before_end(last)
        self.set_end(start)
        self.follows = last is not None
        end = self.max_physical_offset
        while last is not None and (behind := self._behind_zeros(end)) is not None:
            self.set_end(behind)
            end = self.max_physical_offset
        self.follows = False
        self.set_end(end)

    def _behind_zeros(self, end: int) -> int | None:
        """Where the log goes on behind zeros, which are its end as a rule; None where it is.

        A writer puts a record's size last, of many records the first one's. So what is new behind
        zeros is being written, and what is older than the log was left there when it was cut.
        """
        since = self.last_store_timestamp
        if not since or self.size_at(end):
            return None
        behind = self.hole_finder().next_record(
            end, self.files.capacity_end, since - _CLOCK_STEP_MS
        )
        if behind is None:
            return None
        if self._is_closed:
            return behind
        is_new = self.store_timestamp_in_files(behind) > system_clock() - _IN_WORK_MS
        return None if is_new else behind

    def timestamp_before(self, border: int) -> int:
        """Store time of the last record in front of a border, ms; 0 where none is near."""
        base = self.files.base_of(border)
        if base is None or base == border:
            return 0
        start = max(base, border - 2 * _WINDOW_SIZE)
        start = start if start == base else self.next_record(start, border)
        self.set_end(border)
        last = 0
        for batch in self.scan(start, border):
            last = int(batch.store_timestamp[-1]) if len(batch) else last
        return last

    def _border_before_end(self, base: int) -> int:
        """A border not far before the end of what is written in a file; its beginning if none is.

        Where zeros begin is guessed by halving. Zeros in a body make the guess too low, at worst,
        and then more is looked at behind it.
        """
        low, high = base, base + self.file_size
        while high - low > _WINDOW_SIZE:
            middle = (low + high) // 2
            if self.files.read(middle, _PROBE_SIZE).strip(b"\0"):
                low = middle
            else:
                high = middle
        # A body is as large as a window at most, unless a broker was told otherwise.
        start = max(base, low - 2 * _WINDOW_SIZE)
        found = self.next_record(start, low) if start > base else low
        return found if found < low else base

    def last_written(self) -> int | None:
        """Base of the last file in which something was written; None where nothing was.

        Only that one can end early; those before it are closed by a blank, or are damaged there.
        Files behind it are such as a broker makes ahead of need.
        """
        bases = reversed(self.files.bases)
        return next((base for base in bases if self.files.read(base, 8).strip(b"\0")), None)


def find_logs(paths: Iterable[str]) -> list[LogPlace]:
    """The logs that paths lead to, in their order.

    Raises:
        SparkReputError: nothing there, or no log; the text says what was expected.
    """
    found: list[LogPlace] = []
    for path in paths:
        try:
            disk, inside = disk_of(path)
            shown = path if "://" in path else inside
            places = _logs_at(path.rstrip("/") or "/", shown, disk, inside.rstrip("/") or "/")
        except (OSError, ValueError) as error:
            raise SparkReputError("NO_LOG", f"{path}: {error}") from error
        if not places:
            raise SparkReputError(
                "NO_LOG",
                f"{path}: no log there; expected a store (a directory that holds commitlog/ or "
                "dledger-…/data/), a directory of log files (names of 20 digits), one such file, "
                "or a directory of stores",
            )
        found += places
    if not found:
        raise SparkReputError("OPTION", "no path was given: load(path) or load([path, …])")
    return found


def open_log(place: LogPlace, end_offset: int | None = None, *, quickly: bool = False) -> OpenLog:
    """The log at a place, to be read; close it, or use it in a ``with`` statement.

    Args:
        place: where it is.
        end_offset: where it ends, when that is known; else it is looked for in the last file.
        quickly: look near the end only; see `OpenLog.find_end`.

    Raises:
        CorruptFileError: files are missing, or not all of one size.
    """
    if place.kind == LEDGER:
        from reput_spark.logs.ledger import LedgerLog

        log: OpenLog = LedgerLog(place)
    else:
        log = OpenLog(place)
    try:
        if end_offset is None:
            log.find_end(quickly=quickly)
        else:
            log.set_end(end_offset)
    except BaseException:
        log.close()
        raise
    return log


# --------------------------------------------------------------------------- looking


def _logs_at(store: str, shown: str, disk: Disk, path: str) -> list[LogPlace]:
    """The logs at ``path`` of a disk, which the user knows as ``shown``."""
    name = os.path.basename(path)
    if is_file_name(name):
        parent = os.path.dirname(path)
        place = _place(store, above(shown), disk, parent, name)
        if place is not None:
            return [attrs.evolve(place, only_base=int(name))]
    found = _logs_of_store(store, shown, disk, path)
    if found:
        return found
    for entry in disk.list(path):
        if entry.is_dir():
            inside = below(shown, entry.name)
            found += _logs_of_store(below(store, entry.name), inside, disk, f"{path}/{entry.name}")
    return found


def _logs_of_store(store: str, shown: str, disk: Disk, path: str) -> list[LogPlace]:
    """The log whose files are in ``path``, or those of the store that ``path`` is."""
    place = _place(store, shown, disk, path)
    if place is not None:
        return [place]
    found = []
    for entry in disk.list(path):
        if entry.name in ("commitlog", "data"):
            inside = entry.name
        elif entry.name.startswith("dledger-"):
            inside = f"{entry.name}/data"
        else:
            continue
        place = _place(store, below(shown, inside), disk, f"{path}/{inside}")
        if place is not None:
            found.append(place)
    return found


def _place(
    store: str, shown: str, disk: Disk, directory: str, name: str | None = None
) -> LogPlace | None:
    """The log whose files, or whose one file ``name``, are in a directory; None without any."""
    if not disk.exists(directory):
        return None
    files = [
        (f"{directory}/{entry.name}", entry.stat().st_size)
        for entry in disk.list(directory)
        if is_file_name(entry.name) and name in (None, entry.name) and entry.is_file()
    ]
    files = [(path, size) for path, size in files if size > 0]  # a crash may leave an empty one
    if not files:
        return None
    # The first file tells, unless its first bytes are damaged.
    kinds = (_kind_of(disk.read_file(path, _KIND_SIZE)) for path, _ in files)
    kind = next((kind for kind in kinds if kind is not None), COMMIT_LOG)
    return LogPlace(store, shown, files[0][1], kind=kind)


def _kind_of(head: bytes) -> str | None:
    """What a file is that begins with these bytes; None where they do not tell."""
    magics = (MAGIC_V1, MAGIC_V2, BLANK_MAGIC)
    if int.from_bytes(head[4:8], "big") in magics:
        return COMMIT_LOG
    # An entry has a small number in front, or the record in it has its magic behind the head.
    record = head[_ENTRY_HEAD_SIZE + 4 : _ENTRY_HEAD_SIZE + 8]
    is_entry = head[:4] in _ENTRY_MAGICS or int.from_bytes(record, "big") in magics
    return LEDGER if is_entry else None

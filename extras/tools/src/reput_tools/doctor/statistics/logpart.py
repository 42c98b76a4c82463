"""Opens a part of a log in a process of its own, whatever state its files are in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import attrs

from reput.files import Disk, FilePool, system_clock
from reput.log import (
    CheckedRanges,
    LogEnd,
    LogReader,
    LossLedger,
    StateFile,
    log_files,
)

_WINDOW_SIZE: Final = 4 << 20
_FILES_OPEN: Final = 16


@attrs.frozen(kw_only=True)
class LogPart:
    """Which log, and from where to where; plain values that can be sent."""

    root: str
    """The store's directory."""
    file_size: int
    """Bytes of a file of the log."""
    start_offset: int
    """Physical offset of the beginning of a file."""
    end_offset: int
    """Physical offset after the last record."""
    grows: bool = False
    """Whether files grow (`reput.CommitLogConfig.grows`)."""
    follow_links: bool = False
    """As for `reput.open`."""
    checked: CheckedRanges = attrs.field(factory=CheckedRanges)
    """Ranges in which each record has a checksum of its own."""

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self.end_offset - self.start_offset


@contextlib.contextmanager
def open_log(part: LogPart) -> Iterator[LogReader]:
    """Open the log; files that are cut short or missing read as fewer bytes, as damage."""
    disk = Disk().at(part.root, follow_links=part.follow_links)
    pool = FilePool(disk, _FILES_OPEN)
    files = log_files(part.root, part.file_size, disk, pool, grows=part.grows)
    ledger = LossLedger(StateFile.of(part.root, disk), system_clock)
    try:
        files.load(writable=False, damaged=lambda text: None)  # the caller's opening has told them
        with contextlib.suppress(OSError):  # likewise
            ledger.load(writable=False)
        end = LogEnd(part.end_offset)
        yield LogReader(files, _WINDOW_SIZE, ledger=ledger, end=end, checked=part.checked)
    finally:
        pool.close()
        disk.release()

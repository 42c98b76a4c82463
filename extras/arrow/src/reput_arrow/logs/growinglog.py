"""How far a log goes that grows, for readers that come back: each message once, and none half.

An end is always after a valid record: of the right size, with the magic, its own offset, whole in
its file to the last byte (`reput.log.Tail`), with a body that matches its checksum. In a log of
DLedger it is after an entry that is committed, as others may be taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError
from reput.log import LedgerFiles
from reput_tools.offline import committed_end

if TYPE_CHECKING:
    from reput_arrow.logs.openlog import OpenLog

_TAIL_SIZE = 8
"""No record ends in so many zeros: its topic has a byte at least, two bytes before the end."""


@attrs.define(eq=False, slots=False)
class LogCutError(ReputError):
    """A log no longer holds what was read of it: it was cut, or recreated."""

    directory: str
    position: int
    """Physical offset up to which it was read."""

    def __str__(self) -> str:
        return (
            f"{self.directory} was cut or recreated: it was read up to {self.position}, and "
            "the bytes before that place are gone"
        )


def end_behind(log: OpenLog, position: int) -> int:
    """Return how far the log goes: from ``position`` on, an end that was found before.

    Raises:
        LogCutError: what stood before ``position`` is gone.
    """
    last = log.last_written()
    start = position if last is None else max(position, last)
    _refuse_cut(log, position)
    # Bytes older than the record before them were left there when the log was cut.
    before = log.timestamp_before(start) if log.size_at(start) else 0
    files = log.files
    if not isinstance(files, LedgerFiles) or files.committed_end is None:
        log.find_end_behind(start, before)
    if isinstance(files, LedgerFiles):
        log.set_end(committed_end(log, files, position))
    return log.max_physical_offset


def _refuse_cut(log: OpenLog, position: int) -> None:
    """Raise where what stood before ``position`` is gone, as far as that can be told."""
    base = log.files.base_of(position)
    if base is None:
        # At the end of the last file, the next one is made when there is something to put there.
        is_cut = position > log.files.capacity_end
    else:
        size = _TAIL_SIZE if position - base >= _TAIL_SIZE else 0
        is_cut = size > 0 and not log.files.read(position - size, size).strip(b"\0")
    if is_cut:
        raise LogCutError(log.files.directory, position)

"""`committed_end`: how far a log of DLedger goes for readers that must never take a row back.

DLedger notes the last entry that a majority of its group has in ``checkpoint``, each three seconds.
A group never gives up such an entry. Entries after it may be dropped by a later leader, or by the
crash of a group of one, so that others may get their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.log import LedgerFiles, LogReader


def committed_end(log: LogReader, files: LedgerFiles, start: int) -> int:
    """Return the offset after the last entry that is noted as committed; at least ``start``.

    The index of DLedger says where that entry is. It has no units of entries that reput appended:
    then they are read from ``start`` on.

    Args:
        log: the log, up to its end.
        files: its files.
        start: where an entry begins; all entries before it are known to be committed.
    """
    end, number = files.committed_end, files.committed_index
    if end is not None or number is None:
        return max(end or 0, start)
    for batch in log.scan(start, check_crc=True):
        if not len(batch):
            break
        entry = files.entry_of(int(batch.physical_offset[0]))
        left = -1 if entry is None else number - entry.number
        if left < 0:
            break
        row = min(left, len(batch) - 1)
        start = int(batch.physical_offset[row] + batch.size[row])
        if left <= row or batch.finding is not None:
            break
    return start

"""Which files of a log may hold messages of a range of times: by the first record of few of them.

Store times ascend with the offsets, but for clocks that were put back. So halving finds the file at
which a range begins or ends, and of n files the first records of about log2(n) are looked at.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reput_arrow.logs.openlog import OpenLog

CLOCK_SLACK_MS: Final = 60_000
"""By how much a clock may have been put back without a message being missed."""


def last_file_before(log: OpenLog, timestamp: int) -> int:
    """Return the start of the newest file before which nothing was stored from ``timestamp`` on.

    Args:
        log: the log, open; its end need not be known.
        timestamp: ms.
    """
    times = _Times(log)
    number = bisect.bisect_right(times.written, timestamp - CLOCK_SLACK_MS, key=times.of)
    return times.written[number - 1] if number > 0 else log.files.min_offset


def first_file_after(log: OpenLog, timestamp: int) -> int | None:
    """Return the start of the oldest file in which nothing was stored before ``timestamp``.

    Args:
        log: as for `last_file_before`.
        timestamp: ms.

    Returns:
        A physical offset; None where every file may hold such a message.
    """
    times = _Times(log)
    number = bisect.bisect_left(times.written, timestamp + CLOCK_SLACK_MS, key=times.of)
    return times.written[number] if number < len(times.written) else None


class _Times:
    """Store times of the first records of a log's files."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        last = log.last_written()
        self.written = [] if last is None else [base for base in log.files.bases if base <= last]

    def of(self, base: int) -> int:
        """Return when the first record of a file was stored, ms.

        For a damaged first record it is that of the next file, which is not earlier.
        """
        for number in range(bisect.bisect_left(self.written, base), len(self.written)):
            found = self._log.store_timestamp_in_files(self.written[number])
            if found >= 0:
                return found
        return 1 << 62

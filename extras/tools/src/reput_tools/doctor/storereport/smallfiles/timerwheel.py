"""Reads how many messages wait on the timer wheel, and until when.

``timerwheel`` is an array of slots of 32 bytes, integers big-endian: time in units of the precision
(i64), first and last position in the timer log (i64, i64), messages (i32), magic (i32).
``config/timercheck`` begins with the time of the next slot to deliver (i64, ms), a position (i64)
and the queue offset of the next message to put on the wheel (i64); reput's own part, from byte 64
on, has the precision (i64, ms) at byte 80 after the mark ``RPTW`` at byte 68.

Source: RocketMQ ``Slot``, ``TimerWheel``, ``TimerCheckpoint``;
``reput_schedule.timerwheel.layout``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
_SLOT_DTYPE: Final = np.dtype(
    [
        ("tick", ">i8"),  # deliver time / precision
        ("first", ">i8"),  # timer-log position
        ("last", ">i8"),  # timer-log position
        ("count", ">i4"),  # messages less cancellations
        ("magic", ">i4"),
    ]
)
_HEAD_DTYPE: Final = np.dtype(
    [("read_timestamp", ">i8"), ("flushed_position", ">i8"), ("queue_offset", ">i8")]
)
_SLOTS_MAX: Final = 1 << 22
_CHECK_SIZE: Final = 4096
_MARK: Final = slice(68, 72)
_PRECISION: Final = slice(80, 88)
_USUAL_PRECISION_MS: Final = 1_000
_HOUR_MS: Final = 3_600_000


@attrs.frozen(eq=False)
class WheelContents:
    """What waits on the wheel."""

    read_timestamp: int
    """ms; slots before this time are delivered."""
    queue_offset: int
    """Queue offset of the next message of `TIMER_TOPIC` to put on the wheel."""
    due: npt.NDArray[np.int64]
    """``(n,)``: deliver times of slots that wait, ms, ascending."""
    counts: npt.NDArray[np.int64]
    """``(n,)``: messages of each of them."""

    @property
    def waiting(self) -> int:
        """Messages that wait, less cancellations."""
        return int(self.counts.sum())

    def overdue(self, now: int) -> int:
        """Return how many messages should have been delivered before ``now``, ms."""
        return int(self.counts[self.due < now].sum())

    def by_hour(self) -> list[tuple[int, int]]:
        """Return hours, as ms since the epoch, and how many messages fall due in each."""
        hours, starts = np.unique(self.due // _HOUR_MS, return_index=True)
        if len(hours) == 0:
            return []
        counts = np.add.reduceat(self.counts, starts)
        return list(zip((hours * _HOUR_MS).tolist(), counts.tolist(), strict=True))


def read_wheel(root: str, disk: Disk, tell: Callable[[str], None]) -> WheelContents | None:
    """Return what waits on the wheel; None if the store has none, or one that cannot be read.

    Args:
        root: the store's directory.
        disk: the store's.
        tell: called with what cannot be used.
    """
    path = os.path.join(root, "timerwheel")
    check_path = os.path.join(root, "config", "timercheck")
    try:
        if not disk.exists(path):
            return None
        data = disk.read_file(path, _SLOTS_MAX * _SLOT_DTYPE.itemsize)
        check = disk.read_file(check_path, _CHECK_SIZE) if disk.exists(check_path) else b""
    except OSError as error:
        tell(f"{path}: cannot be read, and is ignored: {error.strerror or error}")
        return None
    if not data or len(data) % _SLOT_DTYPE.itemsize or len(check) < _HEAD_DTYPE.itemsize:
        tell(
            f"{path}: {len(data)} bytes of slots, and {len(check)} bytes of config/timercheck; "
            f"slots of {_SLOT_DTYPE.itemsize} bytes and at least {_HEAD_DTYPE.itemsize} bytes "
            "expected, so what waits on the wheel is not known"
        )
        return None
    precision = _USUAL_PRECISION_MS
    if check[_MARK] == b"RPTW" and len(check) >= _PRECISION.stop:
        precision = max(int.from_bytes(check[_PRECISION], "big", signed=True), 1)
    head = np.frombuffer(check, _HEAD_DTYPE, 1)[0]
    slots = np.frombuffer(data, _SLOT_DTYPE)
    tick, count = slots["tick"].astype(np.int64), slots["count"].astype(np.int64)
    first = int(head["read_timestamp"]) // precision
    last = np.iinfo(np.int64).max // precision - 1
    rows = np.flatnonzero((count > 0) & (tick >= max(first, 1)) & (tick <= last))
    rows = rows[np.argsort(tick[rows], kind="stable")]
    return WheelContents(
        int(head["read_timestamp"]),
        int(head["queue_offset"]),
        (tick[rows] + 1) * precision,  # a slot is delivered once its unit of time is over
        count[rows],
    )

"""Which units of a file may be followed, and which of them have notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.record.layout import BLANK_MIN_SIZE, RECORD_MIN_SIZE
from reput_compaction.filepairs.offsetnotelayout import UNKNOWN

if TYPE_CHECKING:
    import numpy.typing as npt


def known_notes(units: npt.NDArray[np.void], notes: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return which of ``(n,)`` units have a note that counts."""
    known: npt.NDArray[np.bool_] = notes["queue_offset"] == units["queue_offset"]
    known &= notes["end_offset"] != UNKNOWN
    return known


def valid_units(units: npt.NDArray[np.void], base: int, file_size: int) -> int:
    """Return the number of units before the first that cannot follow its predecessor."""
    if len(units) == 0:
        return 0
    position, size = units["position"].astype(np.int64), units["size"].astype(np.int64)
    offset = units["queue_offset"].astype(np.int64)
    sound = (size >= RECORD_MIN_SIZE) & (size <= file_size) & (offset >= 0)
    # Not the sum of both, which may exceed 64 bits.
    sound &= (position >= base) & (position - base <= file_size - size - BLANK_MIN_SIZE)
    sound &= (units["batch_size"] == 1) & (units["compacted_offset"] == -1)
    sound[0] &= position[0] == base
    sound[1:] &= (position[1:] - position[:-1] == size[:-1]) & (offset[1:] > offset[:-1])
    return len(units) if sound.all() else int(sound.argmin())

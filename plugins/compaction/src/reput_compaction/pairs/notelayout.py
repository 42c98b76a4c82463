"""Notes: where the records of a compaction log stood in the commit log, a file beside each pair.

The format of compaction logs does not say it, and without it nobody could tell, after the commit
log lost its end, which records stem from what is gone. One note per unit, integers big-endian:

    0              8            16
    +--------------+------------+
    | queue offset | end offset |
    +--------------+------------+

The end offset is the physical offset behind the record in the commit log. It is -1 for a record
that is older than what the log held when it was first looked for. A note counts only when it states
the queue offset of its unit; RocketMQ knows nothing of notes, and may have changed the units.
"""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = [
    "NOTE_DTYPE",
    "NOTE_SIZE",
    "OLDER",
    "REPLACING",
    "SPILL_PREFIX",
    "TOPICS",
    "UNKNOWN",
]

NOTE_DTYPE: Final = np.dtype(
    [
        ("queue_offset", ">i8"),  # of the unit
        ("end_offset", ">i8"),  # bytes, physical offset behind the record in the commit log
    ]
)
NOTE_SIZE: Final = NOTE_DTYPE.itemsize

UNKNOWN: Final = 0  # no record ends at 0, and what was never written is zero
OLDER: Final = -1

REPLACING: Final = "replacing"
"""Name of the file that says which files take the place of which, while they do."""
SPILL_PREFIX: Final = "keys-"
TOPICS: Final = "topics.json"
"""Topics whose messages have all been looked for in the log."""

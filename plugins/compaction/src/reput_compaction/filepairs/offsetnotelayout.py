"""Notes: where the records of a compaction log stood in the commit log, a file beside each pair.

Compaction logs do not contain this. Without it, when the commit log lost its end, the records that
stem from the lost part could not be found. One note per unit, integers big-endian:

    0              8            16
    +--------------+------------+
    | queue offset | end offset |
    +--------------+------------+

The end offset is the physical offset after the record in the commit log. It is -1 for a record that
was already older than the log when it was first looked for there, or that the log has lost with its
end. A note counts only if it states the queue offset of its unit: RocketMQ, which knows no notes,
may have changed the units.
"""

from __future__ import annotations

from typing import Final

import numpy as np

NOTE_DTYPE: Final = np.dtype(
    [
        ("queue_offset", ">i8"),  # of the unit
        ("end_offset", ">i8"),  # bytes, physical offset after the record in the commit log
    ]
)
NOTE_SIZE: Final = NOTE_DTYPE.itemsize

UNKNOWN: Final = 0  # no record ends at 0, and a slot that was never written is zero
OLDER: Final = -1

REPLACING: Final = "replacing"
"""Name of the file that lists old and new pairs while a replacement is going on."""
SPILL_PREFIX: Final = "keys-"
TOMBSTONES: Final = "tombstones"
"""Name of the file that states when a queue's tombstones may be dropped."""
TOPICS: Final = "topics"
"""Name of the note of topics for whose messages the whole log was searched."""

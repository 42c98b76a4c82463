"""Files of compacted topics: a file of records, and a twin file of units that lead to them.

A unit of the sparse queue has 46 bytes, integers big-endian; its file is filled up with zeros:

    0          8      12     20          28      36      38          42         46
    +----------+------+------+-----------+-------+-------+-----------+----------+
    | position | size | tags | store     | queue | batch | compacted | reserved |
    |          |      | code | timestamp | offset| size  | offset    |          |
    +----------+------+------+-----------+-------+-------+-----------+----------+

The record is that of the commit log except for its physical offset, which is the position in the
compaction log. Both files of a pair have the same name, the position of the first record. A closed
file ends in a unit without size, or in a blank record.

Source: RocketMQ 5 ``CompactionLog``, ``SparseConsumeQueue``, ``BatchConsumeQueue``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput.files import is_file_name as is_offset_name
from reput.record.layout import BLANK_MIN_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

UNIT_DTYPE: Final = np.dtype(
    [
        ("position", ">i8"),  # bytes, of the record in the compaction log; -1 in an end unit
        ("size", ">i4"),  # bytes, whole record; 0 marks the end, and unused space
        ("tags_code", ">i8"),  # hash of the tags
        ("store_timestamp", ">i8"),  # ms
        ("queue_offset", ">i8"),  # as the record states it; ascending, with holes
        ("batch_size", ">i2"),  # messages in the record: 1
        ("compacted_offset", ">i4"),  # -1, not used
        ("reserved", ">i4"),  # 0
    ]
)
UNIT_SIZE: Final = UNIT_DTYPE.itemsize
END_UNIT: Final = np.array([(-1, 0, 0, 0, 0, 0, -1, 0)], UNIT_DTYPE).tobytes()
PHYSICAL_OFFSET_POSITION: Final = 28  # in a record, of the only field that changes

DIRECTORY: Final = "compaction"
LOG_DIRECTORY: Final = "compactionLog"
QUEUE_DIRECTORY: Final = "compactionCq"
COMPACTING: Final = "compacting"
CHECKPOINT: Final = "position-checkpoint"

LOG_FILE_SIZE: Final = 104_857_600  # compactionMappedFileSize
QUEUE_FILE_SIZE: Final = 10_485_760  # compactionCqMappedFileSize
_LEAST_QUEUES = 5  # a log file is at least as large as this many queue files


class FileSizes(NamedTuple):
    """Bytes of the two files of a pair."""

    log: int
    queue: int

    @property
    def unit_count_max(self) -> int:
        """Most messages in a pair: the last slot of a queue file is only for an end unit."""
        return self.queue // UNIT_SIZE - 1

    def stop_of(
        self, ends: npt.NDArray[np.int64], row: int, begun: int, count: int, size: int
    ) -> int:
        """Return the end of the records, from ``row`` on, that still go into a pair.

        Args:
            ends: ``(n,)`` total bytes of all records up to each record, inclusive.
            row: the next record to be written.
            begun: total bytes of the records before ``row``.
            count: messages in the pair.
            size: bytes of their records.
        """
        room = self.log - BLANK_MIN_SIZE - size
        stop = int(np.searchsorted(ends, begun + room, "right"))
        return min(stop, row + self.unit_count_max - count)


def file_sizes(log_size: int, queue_size: int) -> FileSizes:
    """Return the sizes that files get when these sizes are asked for.

    Source: RocketMQ ``CompactionStore``: whole units, and a log file of whole queue files.
    """
    queue = queue_size // UNIT_SIZE * UNIT_SIZE
    count, rest = divmod(log_size, queue)
    if count < _LEAST_QUEUES:
        return FileSizes(_LEAST_QUEUES * queue, queue)
    if not 0 < rest < queue // 2:
        count += 1
    return FileSizes(count * queue, queue)


def is_file_name(name: str) -> bool:
    """Return whether a directory entry can be a file of a pair."""
    return is_offset_name(name) and int(name) < 1 << 63

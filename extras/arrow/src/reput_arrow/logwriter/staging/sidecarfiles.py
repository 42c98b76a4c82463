"""Sidecars: beside each log file of a task, the size, queue and ordinal of each of its records.

They have one item for each record, in order. With them a file is numbered without being decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.errors import CorruptFileError

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk

SIDECAR_DTYPE: Final = np.dtype(
    [
        ("size", "<u4"),  # bytes, of the record
        ("group", "<u4"),  # number of its (topic, queue id) among those of the task
        ("ordinal", "<u4"),  # of the message among the task's of that queue; or NO_ORDINAL
    ]
)
SIDECAR_SUFFIX: Final = ".positions"
_PART_SIZE: Final = (1 << 18) * SIDECAR_DTYPE.itemsize
NO_ORDINAL: Final = (1 << 32) - 1
"""Stands for records that take no queue offset: prepared ones, and those rolled back."""


def sidecar_parts(path: str, disk: Disk, record_count: int) -> Iterator[npt.NDArray[np.void]]:
    """Read the items of the log file at ``path``, `SIDECAR_DTYPE`, in parts of 3 MiB.

    The sidecar is on disk when all parts were taken.

    Raises:
        CorruptFileError: the file has not ``record_count`` items.
    """
    size = record_count * SIDECAR_DTYPE.itemsize
    descriptor = disk.open(path + SIDECAR_SUFFIX, write=True)
    try:
        if disk.size(descriptor) != size:
            reason = f"{disk.size(descriptor)} bytes, where {record_count} records have {size}"
            raise CorruptFileError(path + SIDECAR_SUFFIX, 0, reason)
        for position in range(0, size, _PART_SIZE):
            data = disk.read(descriptor, min(_PART_SIZE, size - position), position)
            yield np.frombuffer(data, SIDECAR_DTYPE)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)


def first_ordinals(
    paths: list[tuple[str, int]], disk: Disk, group_count: int
) -> npt.NDArray[np.int64]:
    """Return by group the lowest ordinal in some files of a task; ``(group_count,)``, -1 for none.

    Args:
        paths: of the files, with the number of their records.
        disk: file operations.
        group_count: groups of the task.
    """
    lowest = np.full(group_count, NO_ORDINAL, np.int64)
    for path, record_count in paths:
        for items in sidecar_parts(path, disk, record_count):
            groups, ordinals = items["group"].astype(np.int64), items["ordinal"].astype(np.int64)
            np.minimum.at(lowest, groups, ordinals)
    lowest[lowest == NO_ORDINAL] = -1
    return lowest

"""``reput/moved-ids.tsv``: old and new ids of messages that a conversion moved.

The file is text in UTF-8. The first line names the columns, which tabs separate:

    old_id  new_id  old_physical_offset  new_physical_offset

Every further line is a message, ascending by either offset. An id is the one that a broker gives:
the hex digits of store host, port and physical offset. Messages that were not moved have no line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from reput.files import OWN_DIRECTORY, Disk
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HOST_SIZE,
    HOST_SIZE_V6,
    STORE_HOST_V6,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

MOVED_IDS: Final = os.path.join(OWN_DIRECTORY, "moved-ids.tsv")
"""Path of the file below the new store's directory."""
_HEADING: Final = b"old_id\tnew_id\told_physical_offset\tnew_physical_offset\n"


class MovedIds:
    """Writes the file; a context manager."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._path = os.path.join(root, MOVED_IDS)
        self._disk = disk
        self._descriptor = -1
        self._size = 0
        self.count = 0
        """Messages that were moved."""

    def __enter__(self) -> Self:
        self._disk.make_directory(os.path.dirname(self._path))
        self._descriptor = self._disk.open(self._path, create=True)
        self._write(_HEADING)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._disk.flush(self._descriptor)
        finally:
            self._disk.close(self._descriptor)

    def add(self, batch: DispatchBatch, moved: npt.NDArray[np.int64]) -> None:
        """Add the messages of a batch, whose new physical offsets are ``moved``."""
        rows = np.flatnonzero(moved != batch.physical_offset)
        if not len(rows):
            return
        self.count += len(rows)
        flags = batch.sys_flag[rows]
        born = np.where(flags & BORN_HOST_V6, HOST_SIZE_V6, HOST_SIZE)
        start = batch.start[rows] + (BORN_HOST_POSITION + 8) + born  # 8: the store timestamp
        end = start + np.where(flags & STORE_HOST_V6, HOST_SIZE_V6, HOST_SIZE)
        lines = []
        for first, stop, old, new in zip(
            start.tolist(),
            end.tolist(),
            batch.physical_offset[rows].tolist(),
            moved[rows].tolist(),
            strict=True,
        ):
            host = batch.window[first:stop].tobytes().hex().upper()
            lines.append(f"{host}{old:016X}\t{host}{new:016X}\t{old}\t{new}\n")
        self._write("".join(lines).encode())

    def _write(self, data: bytes) -> None:
        self._disk.write(self._descriptor, data, self._size)
        self._size += len(data)

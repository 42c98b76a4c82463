"""Sums of records: units made of the records of a batch, and units read back from bytes.

There is no loop in Python over records: one `map` hands their bytes to zlib.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.record import crc32
from reput_integrity.layout import UNIT_DTYPE, unit_check

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Buffer
    from reput.record import DispatchBatch

_ONE = UNIT_DTYPE.itemsize


def crcs_of(
    window: Buffer | npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint32]:
    """Return the ``(n,)`` uint32 CRC-32 of ``n`` ranges of ``window``."""
    buffer: Any = window  # the stubs of NumPy for Python 3.11 know no buffers
    view = memoryview(buffer)
    ranges = map(slice, starts.tolist(), (starts + sizes).tolist())
    return np.fromiter(map(crc32, map(view.__getitem__, ranges)), np.uint32, len(starts))


@attrs.frozen(eq=False)
class Units:
    """Sums of records of one file of the log, in its order."""

    base: int
    """Physical offset at which the log's file begins."""
    position: npt.NDArray[np.int64]
    """``(n,)`` int64: of each record in the log's file, bytes."""
    size: npt.NDArray[np.int64]
    """``(n,)`` int64, bytes."""
    crc: npt.NDArray[np.uint32]
    """``(n,)`` uint32."""
    unsound: npt.NDArray[np.int64]
    """``(m,)`` int64: file positions of units that cannot be believed, and are not among the ``n``
    ones."""

    def __len__(self) -> int:
        return len(self.position)

    @property
    def start(self) -> npt.NDArray[np.int64]:
        """``(n,)`` int64: physical offset of each record."""
        return self.position + self.base

    @property
    def end(self) -> npt.NDArray[np.int64]:
        """``(n,)`` int64: physical offset after each record."""
        return self.position + self.size + self.base

    def __getitem__(self, rows: slice | npt.NDArray[np.bool_]) -> Units:
        return attrs.evolve(
            self, position=self.position[rows], size=self.size[rows], crc=self.crc[rows]
        )

    def encode(self) -> bytes:
        """Return the units' bytes."""
        made = np.empty(len(self), UNIT_DTYPE)
        made["position"], made["size"], made["crc"] = self.position, self.size, self.crc
        fields = [made[name].astype(np.uint32) for name in ("position", "size", "crc")]
        made["check"] = unit_check(self.base, *fields)
        return made.tobytes()

    @classmethod
    def decode(cls, base: int, data: bytes, at: int, after: int, limit: int) -> Units:
        """Return the valid units of a part of a file.

        Args:
            base: physical offset at which the log's file begins.
            data: whole units; bytes after the last whole one are not valid.
            at: file position of ``data``, bytes.
            after: position in the log's file before which no record may begin.
            limit: bytes of the log's file: no record ends after them.
        """
        count = len(data) // _ONE
        raw = np.frombuffer(data, UNIT_DTYPE, count)
        fields = [raw[name].astype(np.uint32) for name in ("position", "size", "crc")]
        position, size = fields[0].astype(np.int64), fields[1].astype(np.int64)
        end = position + size
        sound = (raw["check"] == unit_check(base, *fields)) & (size > 0) & (end <= limit)
        # Records do not overlap, and stand in order: of others the first one is believed.
        reach = np.maximum.accumulate(np.where(sound, end, after)) if count else end
        before = np.concatenate([[after], reach[:-1]]) if count else end
        sound &= position >= np.maximum(before, after)
        unsound = np.flatnonzero(~sound) * _ONE + at
        if len(data) % _ONE:
            unsound = np.append(unsound, at + count * _ONE)
        return cls(base, position[sound], size[sound], fields[2][sound], unsound)

    @classmethod
    def none(cls, base: int) -> Units:
        """Return no units."""
        return cls.decode(base, b"", 0, 0, 0)

    @classmethod
    def joined(cls, base: int, parts: list[Units]) -> Units:
        """Return the units of all ``parts``, which are of one file and in order."""
        if not parts:
            return cls.none(base)
        return cls(
            base,
            np.concatenate([each.position for each in parts]),
            np.concatenate([each.size for each in parts]),
            np.concatenate([each.crc for each in parts]),
            np.concatenate([each.unsound for each in parts]),
        )


def units_of(batch: DispatchBatch, file_size: int) -> list[Units]:
    """Return the sums of a batch's records, parted by the log's files."""
    if not len(batch):
        return []
    crc = crcs_of(batch.window, batch.start, batch.size)
    offset = batch.physical_offset
    bases = offset // file_size * file_size
    cuts = [0, *(np.flatnonzero(np.diff(bases)) + 1).tolist(), len(batch)]
    nothing = np.empty(0, np.int64)
    found = []
    for first, stop in pairwise(cuts):
        base, rows = int(bases[first]), slice(first, stop)
        found.append(Units(base, offset[rows] - base, batch.size[rows], crc[rows], nothing))
    return found

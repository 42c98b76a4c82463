"""Read a pair from its first record to its last, window by window.

The units say where records begin, so that no search is needed. Every record must agree with its
unit; if one does not, the whole pair is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.errors import CorruptFileError
from reput.record import PropertyColumns, TextColumn, fixed_rows, words_at
from reput.record.layout import (
    BORN_HOST_V6,
    HEADER_SIZE,
    HOST_EXTRA_V6,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_KEYS,
    RECORD_MIN_SIZE,
    STORE_HOST_V6,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_compaction.filepairs.filepair import Pair, PairFiles

WINDOW_SIZE = 4 << 20
# The fields of `HEADER_DTYPE` that come before the hosts.
_FIRST_FIELDS = np.dtype(
    {
        "names": ["size", "magic", "queue_offset", "physical_offset", "sys_flag"],
        "formats": [">i4", ">u4", ">i8", ">i8", ">i4"],
        "offsets": [0, 4, 20, 28, 36],
        "itemsize": 40,
    }
)
_BODY_SIZE_POSITION = HEADER_SIZE - 4


class Window(NamedTuple):
    """Adjacent records of a pair."""

    pair: Pair
    data: npt.NDArray[np.uint8]
    """Bytes of the records."""
    units: npt.NDArray[np.void]
    """``(n,)`` units of the records."""
    starts: npt.NDArray[np.int64]
    """``(n,)`` position in `data` of each record."""
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes of each record."""
    first: int
    """Number in the pair of the first record."""

    def keys_and_bodies(self) -> tuple[TextColumn, npt.NDArray[np.bool_]]:
        """Return the keys of all records, and which records have a body.

        Raises:
            CorruptFileError: a record is not what its unit says, or ends inside itself.
        """
        data, starts, ends = self.data, self.starts, self.starts + self.sizes
        head = fixed_rows(data, starts, _FIRST_FIELDS)
        sound = head["size"] == self.sizes
        sound &= (head["magic"] == MAGIC_V1) | (head["magic"] == MAGIC_V2)
        sound &= head["queue_offset"] == self.units["queue_offset"]
        sound &= head["physical_offset"] == self.units["position"]
        flag = head["sys_flag"].astype(np.int64)
        extra = ((flag & BORN_HOST_V6) != 0).astype(np.int64) + ((flag & STORE_HOST_V6) != 0)
        at = starts + _BODY_SIZE_POSITION + extra * HOST_EXTRA_V6
        self._check(sound & (at + 4 <= ends))
        body_size = words_at(data, at, np.dtype(">i4")).astype(np.int64)
        at = at + 4 + np.maximum(body_size, 0)
        self._check((body_size >= 0) & (at + 2 <= ends))
        wide = head["magic"] == MAGIC_V2
        topic_size = np.where(wide, words_at(data, at, np.dtype(">u2")), data[at]).astype(np.int64)
        at = at + 1 + wide + topic_size
        self._check(at + 2 <= ends)
        properties_size = words_at(data, at, np.dtype(">i2")).astype(np.int64)
        at = at + 2
        self._check((properties_size >= 0) & (at + properties_size <= ends))
        keys = PropertyColumns(data, at, properties_size).find(PROPERTY_KEYS)
        return keys, body_size > 0

    def _check(self, sound: npt.NDArray[np.bool_]) -> None:
        if not sound.all():
            row = int(sound.argmin())
            position = int(self.units["position"][row]) - self.pair.base
            raise _disagree(self.pair, position, "the record is not the one that its unit names")


class Stretch(NamedTuple):
    """Consecutive messages of a pair."""

    first: int
    """Number in the pair of the first message."""
    stop: int
    begin: int
    """File position of the first record."""
    end: int


def windows(files: PairFiles, pair: Pair, stretch: Stretch | None = None) -> Iterator[Window]:
    """Yield all records of a pair, or of a stretch of it.

    Raises:
        CorruptFileError: the units are not adjacent, or the file of records is too short.
    """
    first, stop, begin, end = stretch or (0, pair.count, 0, pair.size)
    units = files.read_units(pair, first, stop)
    sizes = units["size"].astype(np.int64)
    ends = begin + np.cumsum(sizes)
    starts = ends - sizes
    follows = (units["position"] == pair.base + starts) & (sizes >= RECORD_MIN_SIZE)
    if len(units) != stop - first or not follows.all() or int(ends[-1]) != end:
        raise _disagree(pair, begin, "the units do not lead from one record to the next")
    row = 0
    while row < len(units):
        begin = int(starts[row])
        stop = max(int(np.searchsorted(ends, begin + WINDOW_SIZE, "right")), row + 1)
        size = int(ends[stop - 1]) - begin
        data = np.frombuffer(files.pool.read(pair.log, size, begin), np.uint8)
        if len(data) != size:
            raise _disagree(pair, begin + len(data), "the file of records ends here")
        rows = slice(row, stop)
        yield Window(pair, data, units[rows], starts[rows] - begin, sizes[rows], first + row)
        row = stop


def _disagree(pair: Pair, position: int, reason: str) -> CorruptFileError:
    return CorruptFileError(
        pair.log.path,
        position,
        f"{reason}; this queue is not compacted until its files are repaired",
    )

"""The units of one queue: where its messages stand in the log, by queue offset."""

from __future__ import annotations

import bisect
import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.files import is_file_name, is_safe_name
from reput.record import RECORD_SIZE_MAX
from reput.record.layout import RECORD_MIN_SIZE
from reput_arrow.reader.pruning.derivedfiles import DoubtError

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_arrow.reader.pruning.derivedfiles import DerivedFiles

_QUEUE_ID_MAX: Final = (1 << 31) - 1
_NEAR: Final = 32  # units on either side that are looked at where halving ends
_TRIES: Final = 4
_UNITS_MAX: Final = 1 << 40  # of one queue; no name of a file states more


def _layout() -> Any:
    """Return the module that describes units, which comes with the plugin.

    Raises:
        DoubtError: the plugin is not installed.
    """
    try:
        from reput_consumequeue import layout
    except ImportError:
        raise DoubtError("reput-consumequeue is not installed") from None
    return layout


def queue_ids_of(beside: DerivedFiles, topic: str) -> set[int]:
    """Return the ids of the queues that a topic has files of."""
    names = beside.names(_layout().DIRECTORY, topic) if is_safe_name(topic) else []
    return {
        int(name)
        for name in names
        if name.isascii() and name.isdigit() and int(name) <= _QUEUE_ID_MAX
    }


class QueueUnits:
    """The files of one queue, which may be damaged, and may be written meanwhile.

    Raises:
        DoubtError: no file exists, or they do not follow each other.
    """

    def __init__(self, beside: DerivedFiles, topic: str, queue_id: int) -> None:
        self._layout = _layout()
        self._pool = beside.pool
        self.name = f"{topic}/{queue_id}"
        if not is_safe_name(topic):
            raise DoubtError(f"{topic!r} is not a valid name of a directory")
        size, files = self._layout.UNIT_SIZE, []
        for name, path, file_size in beside.files(self._layout.DIRECTORY, topic, str(queue_id)):
            if not is_file_name(name) or int(name) % size or file_size % size or not file_size:
                raise DoubtError(f"{path} is not a file of a queue, of {file_size} bytes")
            files.append((int(name) // size, file_size // size, path))
        if not files:
            raise DoubtError(f"no files of the queue {self.name}")
        for (first, count, _), (following, _, path) in itertools.pairwise(files):
            if first + count != following:
                raise DoubtError(f"{path} does not begin where the file before it ends")
        self._files = files
        self.first = files[0][0]
        """Queue offset of the first unit in the files."""
        self._room = min(files[-1][0] + files[-1][1], _UNITS_MAX)

    def read(self, first: int, stop: int) -> npt.NDArray[np.void]:
        """Return the units of queue offsets ``[first, stop)``, as `UNIT_DTYPE`; a copy.

        Raises:
            DoubtError: the files do not hold all of them.
        """
        size, parts, at = self._layout.UNIT_SIZE, [], first
        number = bisect.bisect_right(self._files, at, key=lambda file: file[0]) - 1
        for base, count, path in self._files[max(number, 0) :]:
            if at >= stop or not base <= at:
                break
            wanted = min(stop, base + count) - at
            parts.append(self._pool.read(path, wanted * size, (at - base) * size))
            at += wanted
        units = np.frombuffer(b"".join(parts), self._layout.UNIT_DTYPE)
        if len(units) != max(stop - first, 0):
            raise DoubtError(f"queue {self.name}: no units {first} to {stop}")
        return units

    def place(self, queue_offset: int) -> tuple[int, int]:
        """Return physical offset and size that one unit states."""
        (unit,) = self.read(queue_offset, queue_offset + 1)
        return int(unit["physical_offset"]), int(unit["size"])

    @cached_property
    def stop(self) -> int:
        """Queue offset after the last unit; unused units are zero.

        Raises:
            DoubtError: units follow unused ones.
        """
        for _ in range(_TRIES):
            among = range(self.first, self._room)
            found = bisect.bisect_left(among, True, key=lambda each: self.place(each)[1] == 0)
            stop: int = self.first + found
            if self._is_unused_from(stop):
                return stop
            if self.place(stop)[1] == 0:
                break  # else a writer has added units meanwhile
        raise DoubtError(f"queue {self.name}: units after unused ones")

    def _is_unused_from(self, stop: int) -> bool:
        """Return whether all is zero from a unit on: zeros in the middle look like the end."""
        size = self._layout.UNIT_SIZE
        for base, count, path in self._files:
            begin = max(stop, base)
            if begin < base + count:
                left = self._pool.read(path, (base + count - begin) * size, (begin - base) * size)
                if left.strip(b"\0"):
                    return False
        return True

    @property
    def is_cut_off(self) -> bool:
        """Whether the files end with a used unit, so that more of them may be missing."""
        return bool(self.stop == self._room)

    def first_at(self, physical_offset: int) -> int:
        """Return the first queue offset whose message stands at ``physical_offset`` or later.

        Raises:
            DoubtError: the units around it are not in the order of the log.
        """

        def is_there(number: int) -> bool:
            at, size = self.place(number)
            if size <= 0 or at < 0:
                raise DoubtError(f"queue {self.name}: unit {number} is of no message")
            return bool(size != self._layout.PRE_BLANK_SIZE and at >= physical_offset)

        among = range(self.first, self.stop)
        found: int = self.first + bisect.bisect_left(among, True, key=is_there)
        # Halving believes each unit that it meets: a wrong one is not in order with its neighbours.
        near = self.read(max(found - _NEAR, self.first), min(found + _NEAR, self.stop))
        is_blank = near["size"] == self._layout.PRE_BLANK_SIZE
        is_blank |= (near["physical_offset"] == 0) & (near["size"] == RECORD_MIN_SIZE)
        if is_blank[1:][~is_blank[:-1]].any():
            raise DoubtError(f"queue {self.name}: blank units after others near {found}")
        check_units(near[~is_blank])
        return found


def check_units(units: npt.NDArray[np.void]) -> None:
    """Refuse units that no queue of a log has: sizes are bounded, and places ascend.

    Raises:
        DoubtError: one is so.
    """
    sizes = units["size"].astype(np.int64)
    places = units["physical_offset"].astype(np.int64)
    is_sound = (
        (sizes >= RECORD_MIN_SIZE).all()
        and (sizes <= RECORD_SIZE_MAX).all()
        and (places >= 0).all()
        and (places[1:] >= places[:-1] + sizes[:-1]).all()
    )
    if not is_sound:
        raise DoubtError("units of no message, or in the wrong order")

"""Compare a queue with the rebuilt one unit by unit, where a unit more or less moves the others."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.files import file_name
from reput_consumequeue.layout import DIRECTORY, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.offline.explain import message_of, unit_text
from reput_consumequeue.queuefiles import unit_files
from reput_tools.offline import Comparison, Difference, align

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_tools.offline import Unaligned

    Units = npt.NDArray[np.void]

_CHUNK: Final = 1 << 16  # units


def aligned_differences(
    comparison: Comparison, queue: tuple[str, str]
) -> tuple[Difference, ...] | None:
    """Return a difference for each message that only one side has, where units have moved.

    Args:
        comparison: of a log that has all of its records.
        queue: topic and queue id, as directories are named.

    Returns:
        The first `Comparison.limit`. None where files are missing or cut short, or units did not
        move, or are missing only at the end: then each place is compared with the same place.
    """
    own = _Side.of(comparison, comparison.root, queue)
    built = _Side.of(comparison, comparison.built, queue)
    if own is None or built is None or not own.count or not built.count:
        return None
    runs = align(own.values, own.count, built.values, built.count, comparison.limit)
    if not runs or all(len(run.own) == len(run.built) for run in runs):
        return None
    last = runs[-1]
    is_at_end = last.own.stop == own.count and last.built.stop == built.count
    if is_at_end and len(last.own) != len(last.built):
        return None
    stops = [*(run.own.start for run in runs[1:]), own.count]
    found = (
        each
        for run, stop in zip(runs, stops, strict=True)
        for each in _of_run(own, built, run, stop - run.own.stop)
    )
    return tuple(itertools.islice(found, comparison.limit))


@attrs.frozen(eq=False)
class _Side:
    """The files of a queue in the store, or the rebuilt ones, as one run of units."""

    comparison: Comparison
    root: str
    queue: tuple[str, str]
    files: Sequence[tuple[int, int]]
    """Byte at which each begins, ascending from 0, and its size."""
    count: int = attrs.field(init=False)
    """Units up to the last one that is used."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "count", self._used())

    @classmethod
    def of(cls, comparison: Comparison, root: str, queue: tuple[str, str]) -> _Side | None:
        """Return the files below a root; None if one is missing or, unless the last, cut short."""
        files = unit_files(comparison.disk, os.path.join(root, DIRECTORY, *queue))
        ends = [0, *(base + size for base, size in files)]
        full = files[0][1] if files else 0
        if [base for base, _ in files] != ends[:-1] or any(size > full for _, size in files):
            return None
        if any(size != full for _, size in files[:-1]):
            return None
        return cls(comparison, root, queue, files)

    def _used(self) -> int:
        for base, size in reversed(self.files):
            for start in reversed(range(0, size // UNIT_SIZE, _CHUNK)):
                first = base // UNIT_SIZE + start
                count = min(_CHUNK, size // UNIT_SIZE - start)
                used = np.flatnonzero(self.units(first, count)["size"])
                if len(used):
                    return first + int(used[-1]) + 1
        return 0

    def units(self, first: int, count: int) -> Units:
        """Return ``(count,)`` units of `UNIT_DTYPE` from a place on."""
        start, stop = first * UNIT_SIZE, (first + count) * UNIT_SIZE
        data = b"".join(
            self._read(base, max(start - base, 0), min(stop - base, size))
            for base, size in self.files
            if base < stop and start < base + size
        )
        return np.frombuffer(data, UNIT_DTYPE)

    def values(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """Return ``(count, 3)`` values of units from a place on."""
        units = self.units(first, count)
        return np.column_stack([units[name].astype(np.int64) for name in UNIT_DTYPE.names or ()])

    def place(self, row: int) -> tuple[str, int]:
        """Return the path of the file and the byte of a unit; of the place after the last, too."""
        base = max(base for base, _ in self.files if base <= row * UNIT_SIZE)
        path = f"{DIRECTORY}/{self.queue[0]}/{self.queue[1]}/{file_name(base)}"
        return path, row * UNIT_SIZE - base

    def _read(self, base: int, start: int, stop: int) -> bytes:
        """Return bytes of a file; zeros after its end."""
        disk = self.comparison.disk
        descriptor = disk.open(os.path.join(self.root, self.place(base // UNIT_SIZE)[0]))
        try:
            return disk.read(descriptor, stop - start, start).ljust(stop - start, b"\0")
        finally:
            disk.close(descriptor)


def _of_run(own: _Side, built: _Side, run: Unaligned, moved: int) -> Iterator[Difference]:
    """Yield the differences of a run, after which ``moved`` units are equal at other places."""
    comparison, queue = own.comparison, own.queue
    units = own.units(run.own.start, len(run.own))
    others = built.units(run.built.start, len(run.built))
    pairs = [
        *((row, unit, None) for row, unit in zip(run.own, units, strict=True)),
        *((run.own.stop, None, unit) for unit in others),
    ]
    if len(run.own) == len(run.built):
        pairs = list(zip(run.own, units, others, strict=True))
    step = len(run.own) - len(run.built)
    for number, (row, found, wanted) in enumerate(pairs, 1):
        unit = found if wanted is None else wanted
        assert unit is not None
        message = message_of(comparison, queue, unit, row)
        offset = int(unit["physical_offset"])
        text = f"1 message disagrees with the queue: {attrs.evolve(message, key=None)} at {offset}"
        if wanted is None:
            record = attrs.evolve(comparison.touched(offset), key=None)
            text += f": the queue has unit {row} for it, but the record names {record}"
        elif found is None:
            text += ": the queue has no unit for it"
        else:
            text += f": the queue has {unit_text(row, found)}"
        if step and moved and number == len(pairs):
            way = "later" if step > 0 else "earlier"
            text += f"; the {moved} units after it are {abs(step)} {way} than the log gives them"
        yield Difference(
            *own.place(row),
            "the units of a message do not follow from the log",
            kind="unit",
            size=0 if found is None else UNIT_SIZE,
            found=text,
            expected="no such unit" if wanted is None else unit_text(row, wanted),
            messages=(message,),
            message_count=1,
        )

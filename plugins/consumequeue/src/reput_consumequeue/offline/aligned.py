"""Compare a queue with the rebuilt one unit by unit, where a unit more or less moves the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.files import file_name
from reput_consumequeue.layout import DIRECTORY, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.offline.explain import message_of, unit_text
from reput_tools.offline import Comparison, Difference, align

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from reput_tools.offline import Unaligned

    Units = npt.NDArray[np.void]

__all__ = ["aligned_differences"]


def aligned_differences(
    comparison: Comparison,
    queue: tuple[str, str],
    bases: Sequence[int],
    own: Units,
    built: Units,
) -> list[Difference] | None:
    """Return a difference for each message that only one side has, where units have moved.

    Args:
        comparison: of a log that has all of its records.
        queue: topic and queue id, as directories are named.
        bases: bytes at which the queue's files begin in the store, ascending, from 0.
        own: ``(n,)`` units of `UNIT_DTYPE` in the store.
        built: likewise, of the rebuilt queue.

    Returns:
        None where units did not move, or are missing only at the end: then each place is compared
        with the same place.
    """
    own, built = _used(own), _used(built)
    if not len(own) or not len(built):
        return None
    limit = comparison.limit
    runs = align(_reader(own), len(own), _reader(built), len(built), limit)
    if not runs or all(len(run.own) == len(run.built) for run in runs):
        return None
    last = runs[-1]
    is_at_end = last.own.stop == len(own) and last.built.stop == len(built)
    if is_at_end and len(last.own) != len(last.built):
        return None
    stops = [*(run.own.start for run in runs[1:]), len(own)]
    found: list[Difference] = []
    for run, stop in zip(runs, stops, strict=True):
        found += _of_run(comparison, queue, bases, (own, built), run, stop - run.own.stop)
    return found


def _used(units: Units) -> Units:
    used = np.flatnonzero(units["size"])
    return units[: int(used[-1]) + 1] if len(used) else units[:0]


def _reader(units: Units) -> Callable[[int, int], npt.NDArray[np.int64]]:
    rows = np.column_stack([units[name].astype(np.int64) for name in UNIT_DTYPE.names or ()])
    return lambda first, count: rows[first : first + count]


def _of_run(
    comparison: Comparison,
    queue: tuple[str, str],
    bases: Sequence[int],
    sides: tuple[Units, Units],
    run: Unaligned,
    moved: int,
) -> Iterator[Difference]:
    """Yield the differences of a run, after which ``moved`` units are equal at other places."""
    own, built = sides
    pairs = [
        *((run.own.start + place, own[row], None) for place, row in enumerate(run.own)),
        *((run.own.stop, None, built[row]) for row in run.built),
    ]
    if len(run.own) == len(run.built):
        pairs = [(row, own[row], built[other]) for row, other in zip(*run, strict=True)]
    step = len(run.own) - len(run.built)
    for place, (row, found, wanted) in enumerate(pairs):
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
        if step and moved and place == len(pairs) - 1:
            way = "later" if step > 0 else "earlier"
            text += f"; the {moved} units after it are {abs(step)} {way} than the log gives them"
        base = max(each for each in bases if each <= row * UNIT_SIZE)
        yield Difference(
            f"{DIRECTORY}/{queue[0]}/{queue[1]}/{file_name(base)}",
            row * UNIT_SIZE - base,
            "the units of a message do not follow from the log",
            kind="unit",
            size=0 if found is None else UNIT_SIZE,
            found=text,
            expected="no such unit" if wanted is None else unit_text(row, wanted),
            messages=(message,),
            message_count=1,
        )

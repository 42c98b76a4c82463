"""Compare batch queues with the log: the units of a queue in their order, wherever they stand.

The log does not determine where the first of its units stands, as older ones may have been removed
before it. Nor does it determine units of messages that it has lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.files import file_name
from reput_consumequeue.batch.layout import DIRECTORY, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.layout import valid_count
from reput_consumequeue.queuefiles import unit_files
from reput_tools.offline import Comparison, Difference

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_consumequeue.queuefiles import Units


def batch_differences(
    comparison: Comparison, differences: Iterable[Difference]
) -> Iterator[Difference]:
    """Yield where each batch queue with a difference first departs from the log."""
    for directory in sorted({each.path.rpartition("/")[0] for each in differences}):
        strays = list(_strays(comparison, directory))
        if strays:
            yield from strays
            continue
        own, places = _units(comparison, comparison.root, directory)
        wanted, _ = _units(comparison, comparison.built, directory)
        rows = _determined(comparison, own)
        left, wanted = own[rows], wanted[_determined(comparison, wanted)]
        count = min(len(left), len(wanted))
        unlike = np.flatnonzero(left[:count] != wanted[:count])
        first = int(unlike[0]) if len(unlike) else count
        if first == len(left) == len(wanted):
            continue
        path, position = (
            places[int(rows[first])] if first < len(left) else _after(directory, own, places)
        )
        yield Difference(
            path,
            position,
            "bytes differ from the bytes that the log gives",
            kind="unit",
            size=max(len(left), len(wanted)) * UNIT_SIZE - first * UNIT_SIZE,
            found=_text(left, first),
            expected=_text(wanted, first),
            is_absent=first == len(left),
        )


def _strays(comparison: Comparison, directory: str) -> Iterator[Difference]:
    """Yield files that do not follow the file before them, by name or by contents."""
    files = unit_files(comparison.disk, f"{comparison.root}/{directory}")
    full = max((size for _, size in files), default=0)
    end, is_full = files[0][0] if files else 0, True
    for base, size in files:
        name = f"{directory}/{file_name(base)}"
        units = _read(comparison, directory, base, size)
        if base != end:
            reason = f"the file before it ends at {end}"
            yield Difference(name, 0, reason, kind="order", size=size)
        elif not is_full and units.view(np.uint8).any():
            reason = "the file before it is not full"
            yield Difference(name, 0, reason, kind="extra", size=size)
        end, is_full = base + full, is_full and valid_count(units) == full // UNIT_SIZE


def _read(comparison: Comparison, directory: str, base: int, size: int, root: str = "") -> Units:
    disk = comparison.disk
    descriptor = disk.open(f"{root or comparison.root}/{directory}/{file_name(base)}")
    try:
        data = disk.read(descriptor, size - size % UNIT_SIZE, 0)
    finally:
        disk.close(descriptor)
    return np.frombuffer(data[: len(data) - len(data) % UNIT_SIZE], UNIT_DTYPE)


def _determined(comparison: Comparison, units: Units) -> npt.NDArray[np.intp]:
    """Return the units of messages that the log has."""
    offsets = units["physical_offset"].astype(np.int64)
    rows = offsets >= comparison.log.min_physical_offset
    if comparison.damaged:
        rows &= ~comparison.is_lost(offsets)
    return np.flatnonzero(rows)


def _units(
    comparison: Comparison, root: str, directory: str
) -> tuple[Units, list[tuple[str, int]]]:
    """Return the units of a queue up to the first invalid one, and the file and byte of each."""
    parts, places = [np.zeros(0, UNIT_DTYPE)], []
    for base, size in unit_files(comparison.disk, f"{root}/{directory}"):
        name = f"{directory}/{file_name(base)}"
        units = _read(comparison, directory, base, size, root)
        count = valid_count(units)
        parts.append(units[:count])
        places += [(name, at * UNIT_SIZE) for at in range(count)]
        if count < len(units):
            break
    return np.concatenate(parts), places


def _after(directory: str, own: Units, places: list[tuple[str, int]]) -> tuple[str, int]:
    """Return the place after the last unit."""
    if not places:
        return f"{directory}/{file_name(0)}", 0
    name, position = places[len(own) - 1]
    return name, position + UNIT_SIZE


def _text(units: Units, at: int) -> str:
    if at >= len(units):
        return "no unit"
    offset, size, tags_code, time, base, count, _, _ = units[at].item()
    return (
        f"record at {offset}, {size} bytes, tags code {tags_code}, stored {time}, "
        f"messages {base} to {base + count - 1}"
    )


def is_of_batches(difference: Difference) -> bool:
    """Whether a difference is in a file of a batch queue."""
    return difference.path.startswith(f"{DIRECTORY}/") and difference.path.count("/") == 3

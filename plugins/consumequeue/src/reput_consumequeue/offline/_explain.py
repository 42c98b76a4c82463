"""Say what stands where queues differ from the log: units, and the messages that they lead to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_consumequeue.layout import DIRECTORY, PRE_BLANK_SIZE, UNIT_DTYPE, UNIT_SIZE
from reput_offline import Comparison, Difference

if TYPE_CHECKING:
    import numpy.typing as npt

    Units = npt.NDArray[np.void]

__all__ = ["explain"]

_MESSAGES_MAX: Final = 20  # named in a difference
_UNITS_MAX: Final = 1 << 20  # of a difference that are looked at


def explain(comparison: Comparison, difference: Difference) -> Difference:
    """Return the difference with the units that stand there, in the store and by the log."""
    steps = difference.path.split("/")
    if len(steps) != 4 or steps[0] != DIRECTORY or not steps[3].isdigit():
        return difference
    topic, queue_id, base = steps[1], steps[2], int(steps[3])
    first = difference.position // UNIT_SIZE
    stop = -(-(difference.position + max(difference.size, 1)) // UNIT_SIZE)
    count = min(stop - first, _UNITS_MAX)
    own = _units(comparison, comparison.root, difference.path, first, count)
    wanted = _units(comparison, comparison.built, difference.path, first, count)
    if difference.kind == "missing":
        own = np.zeros(count, UNIT_DTYPE)
    number = base // UNIT_SIZE + first
    rows = np.flatnonzero(_is_message(wanted) | _is_message(own))
    messages = []
    for row in rows[:_MESSAGES_MAX].tolist():
        # The log's word counts where it has the message.
        unit = wanted[row] if _is_message(wanted[row : row + 1])[0] else own[row]
        message = comparison.touched(int(unit["physical_offset"]))
        queue = int(queue_id) if queue_id.isascii() and queue_id.isdigit() else None
        messages.append(
            attrs.evolve(message, topic=topic, queue_id=queue, queue_offset=number + row)
        )
    return attrs.evolve(
        difference,
        found="no file" if difference.kind == "missing" else _text(own, number),
        expected=(
            f"a file of {np.count_nonzero(wanted['size'])} units"
            if difference.kind == "missing"
            else _text(wanted, number)
        ),
        messages=tuple(messages),
        message_count=len(rows),
    )


def _is_message(units: Units) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (units["size"] > 0) & (units["size"] != PRE_BLANK_SIZE)
    return found


def _units(comparison: Comparison, root: str, path: str, first: int, count: int) -> Units:
    """Return ``(count,)`` units of a file; missing ones are zero."""
    try:
        descriptor = comparison.disk.open(os.path.join(root, path))
    except FileNotFoundError:
        return np.zeros(count, UNIT_DTYPE)
    try:
        data = comparison.disk.read(descriptor, count * UNIT_SIZE, first * UNIT_SIZE)
    finally:
        comparison.disk.close(descriptor)
    return np.frombuffer(data.ljust(count * UNIT_SIZE, b"\0"), UNIT_DTYPE)


def _text(units: Units, number: int) -> str:
    """Return the first unit as text, and how many follow."""
    offset, size, tags = units[0].item()
    if not any((offset, size, tags)):
        text = f"unit {number}: zeros"
    elif size == PRE_BLANK_SIZE:
        text = f"unit {number}: a blank"
    else:
        text = f"unit {number}: physical offset {offset}, size {size}, tags code {tags}"
    return text if len(units) == 1 else f"{text}; and {len(units) - 1} more"

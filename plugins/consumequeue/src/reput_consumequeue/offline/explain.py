"""Say what stands where queues differ from the log: units, and the messages that they lead to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.files import file_name
from reput_consumequeue.extend.layout import (
    EXTEND_DIRECTORY,
    EXTEND_DTYPE,
    EXTEND_HEAD_SIZE,
    is_address,
    positions_of,
)
from reput_consumequeue.layout import DIRECTORY, PRE_BLANK_SIZE, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.queuefiles import unit_files
from reput_tools.offline import Comparison, Difference, TouchedMessage

if TYPE_CHECKING:
    import numpy.typing as npt

    Units = npt.NDArray[np.void]

MESSAGES_MAX: Final = 20
"""Messages that a difference names."""
_UNITS_MAX: Final = 1 << 20  # of a difference that are looked at


def explain(comparison: Comparison, difference: Difference) -> Difference:
    """Return the difference with the units that stand there, in the store and by the log."""
    steps = difference.path.split("/")
    if difference.found:
        return difference  # explained where it was found
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
    for row in rows[:MESSAGES_MAX].tolist():
        # The log's word counts where it has the message.
        unit = wanted[row] if _is_message(wanted[row : row + 1])[0] else own[row]
        messages.append(message_of(comparison, (topic, queue_id), unit, number + row))
    return attrs.evolve(
        difference,
        found=(
            "no file"
            if difference.kind == "missing"
            else _text(own, number, _lead(comparison, comparison.root, steps[1:3], own[:1]))
        ),
        expected=(
            f"a file of {np.count_nonzero(wanted['size'])} units"
            if difference.kind == "missing"
            else _text(wanted, number, _lead(comparison, comparison.built, steps[1:3], wanted[:1]))
        ),
        messages=tuple(messages),
        message_count=len(rows),
    )


def message_of(
    comparison: Comparison, queue: tuple[str, str], unit: np.void, queue_offset: int
) -> TouchedMessage:
    """Return the message to which a unit leads, as its queue has it.

    Args:
        comparison: knows the log.
        queue: topic and queue id, as directories are named.
        unit: of `UNIT_DTYPE`.
        queue_offset: of the unit.
    """
    topic, name = queue
    queue_id = int(name) if name.isascii() and name.isdigit() else None
    message = comparison.touched(int(unit["physical_offset"]))
    return attrs.evolve(message, topic=topic, queue_id=queue_id, queue_offset=queue_offset)


def _is_message(units: Units) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (units["size"] > 0) & (units["size"] != PRE_BLANK_SIZE)
    return found


def _units(comparison: Comparison, root: str, path: str, first: int, count: int) -> Units:
    """Return ``(count,)`` units of a file; missing ones are zero."""
    data = _read(comparison, os.path.join(root, path), count * UNIT_SIZE, first * UNIT_SIZE)
    return np.frombuffer(data.ljust(count * UNIT_SIZE, b"\0"), UNIT_DTYPE)


def _read(comparison: Comparison, path: str, size: int, position: int) -> bytes:
    """Return bytes of a file: fewer at its end, none of a file that does not exist."""
    try:
        descriptor = comparison.disk.open(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""
    try:
        return comparison.disk.read(descriptor, size, position)
    finally:
        comparison.disk.close(descriptor)


def _lead(comparison: Comparison, root: str, queue: list[str], unit: Units) -> str:
    """Return where a unit leads in the extend files, and what is there; empty if it leads nowhere.

    Args:
        comparison: whose files are meant.
        root: the directory with them.
        queue: topic and queue id.
        unit: ``(1,)``.
    """
    code = unit["tags_code"].astype(np.int64)
    if not len(code) or not is_address(code)[0]:
        return ""
    position = int(positions_of(code)[0])
    directory = os.path.join(EXTEND_DIRECTORY, *queue)
    files = unit_files(comparison.disk, os.path.join(root, directory))
    base, size = max(((base, size) for base, size in files if base <= position), default=(0, None))
    path, position = os.path.join(directory, file_name(base)), position - base
    place = f"{path}, byte {position}"
    if size is None:
        return f"{place}: no file"
    data = _read(comparison, os.path.join(root, path), EXTEND_HEAD_SIZE, position)
    if len(data) < EXTEND_HEAD_SIZE:
        return f"{place}: end of file at byte {size}"
    unit_size, tags, timestamp, _ = np.frombuffer(data, EXTEND_DTYPE)[0].item()
    if not any(data):
        return f"{place}: zeros"
    return f"{place}: size {unit_size}, tags code {tags}, store time {timestamp}"


def unit_text(number: int, unit: np.void) -> str:
    """Return a unit of `UNIT_DTYPE` as text.

    Args:
        number: its queue offset.
        unit: the unit.
    """
    offset, size, tags = unit.item()
    if not any((offset, size, tags)):
        return f"unit {number}: zeros"
    if size == PRE_BLANK_SIZE:
        return f"unit {number}: a blank"
    return f"unit {number}: physical offset {offset}, size {size}, tags code {tags}"


def _text(units: Units, number: int, lead: str) -> str:
    """Return the first unit as text with its extend unit, and how many follow."""
    text = unit_text(number, units[0])
    text = f"{text}, which leads to {lead}" if lead else text
    return text if len(units) == 1 else f"{text}; and {len(units) - 1} more"

"""Cut a batch into runs: the units of each queue together, in the order of the log.

All units of a batch are made at once, in one array sorted by queue; a run is a slice of that array.

Light queues: a message may be listed in further queues, whose names and offsets it carries as
properties. Source: RocketMQ 5.3 ``ConsumeQueue#checkMultiDispatchQueue``,
``#multiDispatchLmqQueue``: the id of a light queue is 0, other names get the message's own id;
Java's split drops empty parts at the end; lists of unequal length are ignored, and so are the lists
of messages of some system topics. Different on purpose: an offset that is not a number skips its
name only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.engine import kernel
from reput.record.layout import (
    LIGHT_QUEUE_PREFIX,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    PROPERTY_LIGHT_QUEUES,
    RETRY_PREFIX,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)
from reput_consumequeue.layout import UNIT_DTYPE, UNIT_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

_KEYS_IN_16_BITS = 1 << 16
_QUEUE_ID_SPAN = 1 << 32
_OFFSET = re.compile(r"[0-9]{1,17}")  # times 20 bytes this is below 2**63
_SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_SYSTEM_PREFIX = "rmq_sys_"


class UnitRun(NamedTuple):
    """Units of one queue, ``n`` of them."""

    topic: str
    queue_id: int
    data: memoryview
    """20 bytes a unit."""
    queue_offsets: npt.NDArray[np.int64]
    """``(n,)`` queue offsets that the records state."""
    ends: npt.NDArray[np.int64]
    """``(n,)`` physical offsets after the records, ascending."""
    consecutive: bool
    """Whether each queue offset is the one before it plus 1."""


def runs(batch: DispatchBatch) -> Iterator[UnitRun]:
    """Yield the runs of a batch; prepared and rolled back messages are in none."""
    column = batch.column
    units, queue_offsets, ends, found = units_by_queue(
        column("sys_flag"),
        batch.topic_code,
        column("queue_id"),
        column("queue_offset"),
        column("physical_offset"),
        batch.size,
        column("tags_code"),
    )
    topics, data = batch.topics, units.data
    for code, queue_id, start, stop, consecutive in found:
        yield UnitRun(
            topics[code],
            queue_id,
            data[start * UNIT_SIZE : stop * UNIT_SIZE],
            queue_offsets[start:stop],
            ends[start:stop],
            consecutive,
        )


@kernel
def units_by_queue(
    sys_flag: npt.NDArray[np.int32],
    topic_code: npt.NDArray[np.int32],
    queue_id: npt.NDArray[np.int32],
    queue_offset: npt.NDArray[np.int64],
    physical_offset: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    tags_code: npt.NDArray[np.int64],
) -> tuple[Any, ...]:
    """Make the units of ``(n,)`` messages, those of each queue together.

    Returns:
        Bytes of the ``m`` units, ``(20 m,)`` uint8, by topic code, queue id (negative ones after
        the others) and place in the batch; the queue offset that each one's record states and the
        physical offset after it, ``(m,)`` int64; for each queue its topic code, its id, its first
        unit and the one after its last, and whether each queue offset is the one before plus 1.
    """
    rows = _visible(sys_flag)
    if rows is not None:
        topic_code, queue_id = topic_code[rows], queue_id[rows]
    if len(topic_code) == 0:
        nothing = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), nothing, nothing, []
    order, keys, width = _grouped(topic_code, queue_id)
    if rows is not None:
        order = rows[order]
    units, ends = _units(physical_offset[order], size[order], tags_code[order])
    queue_offsets = queue_offset[order]
    borders = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    breaks = np.flatnonzero(queue_offsets[1:] != queue_offsets[:-1] + 1) + 1
    # A break between two queues does not count; the remaining breaks are inside of runs.
    inside = np.setdiff1d(breaks, borders, assume_unique=True)
    broken = set(np.searchsorted(borders, inside, "right").tolist())
    starts = [0, *borders.tolist()]
    stops = [*starts[1:], len(order)]
    found = []
    for number, key in enumerate(keys[starts].tolist()):
        number_of_queue = key % width
        # Undo the key: negative queue ids stand above all others in it.
        is_negative = number_of_queue >= _QUEUE_ID_SPAN // 2
        found.append(
            (
                key // width,
                number_of_queue - (_QUEUE_ID_SPAN if is_negative else 0),
                starts[number],
                stops[number],
                number not in broken,
            )
        )
    return units, queue_offsets, ends, found


def light_runs(batch: DispatchBatch) -> Iterator[UnitRun]:
    """Yield the runs of light queues. A message listed twice in one queue gives two runs."""
    listed = batch.text(PROPERTY_LIGHT_QUEUES)
    stated = batch.text(PROPERTY_LIGHT_QUEUE_OFFSETS)
    present = listed.present & stated.present
    if not present.any():
        return
    visible = _visible(batch.sys_flag)
    rows = np.flatnonzero(present) if visible is None else visible[present[visible]]
    queues: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    again: list[tuple[tuple[str, int], int, int]] = []
    # Row by row, as each row names queues of its own.
    for row in rows.tolist():
        topic = batch.topics[int(batch.topic_code[row])]
        if topic == _SCHEDULE_TOPIC or topic.startswith((RETRY_PREFIX, _SYSTEM_PREFIX)):
            continue
        names, offsets = _java_split(listed[row] or ""), _java_split(stated[row] or "")
        if len(names) != len(offsets):
            continue
        for name, offset in zip(names, offsets, strict=True):
            if _OFFSET.fullmatch(offset) is None:
                continue
            is_light = name.startswith(LIGHT_QUEUE_PREFIX)
            queue = name, 0 if is_light else int(batch.queue_id[row])
            queue_rows, queue_offsets = queues.setdefault(queue, ([], []))
            if queue_rows and queue_rows[-1] == row:
                again.append((queue, row, int(offset)))
            else:
                queue_rows.append(row)
                queue_offsets.append(int(offset))
    for queue, (queue_rows, queue_offsets) in queues.items():
        yield _light_run(batch, queue, queue_rows, queue_offsets)
    for queue, row, offset_again in again:
        yield _light_run(batch, queue, [row], [offset_again])


def _light_run(
    batch: DispatchBatch, queue: tuple[str, int], rows: list[int], offsets: list[int]
) -> UnitRun:
    order = np.array(rows, np.int64)
    units, ends = _units(batch.physical_offset[order], batch.size[order], batch.tags_code[order])
    queue_offsets = np.array(offsets, np.int64)
    consecutive = bool((np.diff(queue_offsets) == 1).all())
    return UnitRun(*queue, units.data, queue_offsets, ends, consecutive)


def _visible(sys_flag: npt.NDArray[np.int32]) -> npt.NDArray[np.int64] | None:
    """Return the rows that are messages of their queue; None when all are."""
    transaction = sys_flag & TRANSACTION_MASK
    if not transaction.any():
        return None
    return np.flatnonzero((transaction == 0) | (transaction == TRANSACTION_COMMIT))


def _units(
    physical_offset: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    tags_code: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of the units of some rows, and the physical offset after each record."""
    units = np.empty(len(size), UNIT_DTYPE)
    units["physical_offset"] = physical_offset
    units["size"] = size
    units["tags_code"] = tags_code
    return units.view(np.uint8), physical_offset + size


def _grouped(
    topic_code: npt.NDArray[np.int32], queue_id: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return the order that groups rows by queue, the sorted keys, and queue ids per topic."""
    topic_count = int(topic_code.max()) + 1
    width = int(queue_id.max()) + 1
    if 0 < width * topic_count <= _KEYS_IN_16_BITS and int(queue_id.min()) >= 0:
        # Two-byte keys are sorted by counting, in a tenth of the time.
        key = (topic_code * width + queue_id).astype(np.uint16)
    else:
        width = _QUEUE_ID_SPAN
        key = topic_code.astype(np.int64) * width + (queue_id.astype(np.int64) & (width - 1))
    order = np.argsort(key, kind="stable")
    return order, key[order].astype(np.int64), width


def _java_split(text: str) -> list[str]:
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts

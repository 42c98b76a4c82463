"""Asks the files of all plugins, in one pass, what they know of the places where a log is damaged.

Consume queues know topic, queue, queue offset and size of each record; a key index knows hashes of
keys and store times. They may be as damaged as the log, so nothing is believed that contradicts the
log's valid records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import RECORD_SIZE_MAX
from reput.record.layout import RECORD_MIN_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_tools.offline import RecordHints

PLACES_MAX: Final = 200_000
"""Places that are kept in memory; of more, only queues and numbers are known."""
_SAMPLES_PER_PART: Final = 16
_SAMPLES_PER_FILE: Final = 256
_NO_END: Final = (1 << 63) - 1

Queue = tuple[str, int]


@attrs.frozen
class DamagePlace:
    """A message at its place in the log, as a plugin's files have it."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int


@attrs.frozen
class Wanted:
    """The questions."""

    ranges: Sequence[tuple[int, int]]
    """Physical offsets, half-open, ascending, apart from each other."""
    start_offset: int
    """Where the log begins."""
    file_size: int
    gaps: Mapping[Queue, npt.NDArray[np.int64]]
    """Queue offsets that no record of the log has, by queue: ``(n, 2)`` from and to, ascending;
    the last one of each queue has no end."""
    asks_for_others: bool = False
    """Whether every message of a queue that is not in ``gaps`` is asked for: it has no record."""


@attrs.define
class PluginHints:
    """What the files of plugins say; `DamagePlace` values are distinct."""

    in_ranges: list[DamagePlace] = attrs.field(factory=list)
    """Messages that begin in the wanted ranges, by physical offset."""
    in_gaps: list[DamagePlace] = attrs.field(factory=list)
    """Messages, anywhere in the log, whose queue offset no record has."""
    hashes: dict[int, tuple[int, ...]] = attrs.field(factory=dict)
    """Hashes of keys, by physical offset of the message, in the wanted ranges."""
    timestamps: dict[int, int] = attrs.field(factory=dict)
    """Store times, ms, likewise."""
    queue_ends: dict[Queue, int] = attrs.field(factory=dict)
    """The next queue offset of each queue."""
    samples: dict[int, list[DamagePlace]] = attrs.field(factory=dict)
    """Some messages of each log file, by the file's base."""
    is_cut: bool = False
    """Whether there were more places than are kept."""


def ask(leads: Iterator[RecordHints], wanted: Wanted) -> PluginHints:
    """Read ``leads`` once, and keep what is wanted."""
    known = PluginHints()
    starts = np.array([start for start, _ in wanted.ranges], np.int64)
    ends = np.array([end for _, end in wanted.ranges], np.int64)
    hashes: dict[int, set[int]] = {}
    for part in leads:
        here = inside(part.physical_offset, starts, ends)
        if part.topic is not None and part.queue_id is not None and part.queue_offset is not None:
            _take_queue(known, part, here, wanted)
        elif part.key_hash is not None:
            room = max(PLACES_MAX - len(hashes), 0)
            for row in np.flatnonzero(here)[:room].tolist():
                offset = int(part.physical_offset[row])
                hashes.setdefault(offset, set()).add(int(part.key_hash[row]))
                if part.store_timestamp is not None:
                    known.timestamps[offset] = int(part.store_timestamp[row])
    known.hashes = {offset: tuple(sorted(found)) for offset, found in hashes.items()}
    known.in_ranges = _distinct(known.in_ranges)
    known.in_gaps = _distinct(known.in_gaps)
    return known


def inside(
    offsets: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which offsets, ``(n,)``, are in one of the ranges ``[starts, ends)``, ascending."""
    if len(starts) == 0:
        return np.zeros(len(offsets), bool)
    at = np.searchsorted(starts, offsets, side="right") - 1
    return (at >= 0) & (offsets < ends[np.maximum(at, 0)])


def _take_queue(
    known: PluginHints, part: RecordHints, here: npt.NDArray[np.bool_], wanted: Wanted
) -> None:
    assert part.topic is not None
    assert part.queue_id is not None
    assert part.queue_offset is not None
    queue = part.topic, part.queue_id
    plausible = (part.size >= RECORD_MIN_SIZE) & (part.size <= RECORD_SIZE_MAX)
    if not plausible.any():
        return
    end = int(part.queue_offset[plausible].max()) + 1
    known.queue_ends[queue] = max(known.queue_ends.get(queue, 0), end)
    known.in_ranges += _places(known, part, here & plausible, known.in_ranges)
    in_log = plausible & (part.physical_offset >= wanted.start_offset)
    gaps = wanted.gaps.get(queue)
    if gaps is None:
        gaps = np.array([[0, _NO_END]] if wanted.asks_for_others else [], np.int64).reshape(-1, 2)
    in_gap = in_log & inside(part.queue_offset, gaps[:, 0], gaps[:, 1])
    known.in_gaps += _places(known, part, in_gap, known.in_gaps)
    _take_samples(known, part, np.flatnonzero(in_log), wanted.file_size)


def _places(
    known: PluginHints,
    part: RecordHints,
    chosen: npt.NDArray[np.bool_],
    so_far: Sequence[DamagePlace],
) -> list[DamagePlace]:
    rows = np.flatnonzero(chosen)
    room = max(PLACES_MAX - len(so_far), 0)
    known.is_cut = known.is_cut or len(rows) > room
    return [_place(part, row) for row in rows[:room].tolist()]


def _place(part: RecordHints, row: int) -> DamagePlace:
    assert part.topic is not None
    assert part.queue_id is not None
    assert part.queue_offset is not None
    return DamagePlace(
        int(part.physical_offset[row]),
        int(part.size[row]),
        part.topic,
        part.queue_id,
        int(part.queue_offset[row]),
    )


def _take_samples(
    known: PluginHints, part: RecordHints, rows: npt.NDArray[np.int64], file_size: int
) -> None:
    if len(rows) == 0 or file_size == 0:  # no file of the log has a byte
        return
    base = part.physical_offset[rows] // file_size
    for number in np.unique(base).tolist():
        kept = known.samples.setdefault(number * file_size, [])
        here = rows[base == number]
        step = max(len(here) // _SAMPLES_PER_PART, 1)
        room = _SAMPLES_PER_FILE - len(kept)
        kept += [_place(part, row) for row in here[::step][:room].tolist()]


def _distinct(places: list[DamagePlace]) -> list[DamagePlace]:
    found = dict.fromkeys(places)
    return sorted(found, key=lambda each: (each.physical_offset, each.topic, each.queue_id))


def leads_into(leads: Callable[[], Iterator[RecordHints]], offset: int, size: int) -> bool:
    """Whether a plugin's files lead to a record of ``size`` bytes at ``offset``."""
    return any(
        bool(((part.physical_offset == offset) & ((part.size == size) | (part.size == 0))).any())
        for part in leads()
    )

"""Cut the work of a job into tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_compaction.filepairs.pairscan import Stretch
from reput_compaction.job.jobtasks import (
    LayTask,
    MergeTask,
    Part,
    QueueRows,
    ScanTask,
    Segment,
    WriteTask,
)
from reput_compaction.run.superseded import PARTS_MAX, ROW_DTYPE, SORT_FACTOR

if TYPE_CHECKING:
    from reput_compaction.filepairs.filepair import Pair, PairFiles
    from reput_compaction.job.jobtasks import LaidPair, Merged, Scanned
    from reput_compaction.run.compaction import Compaction

_ROWS_MIN = 1 << 18  # fewer rows are not worth a task of their own


def bits_for(row_count: int, memory: int, parallelism: int) -> int:
    """Return how many leading bits of a hash give parts that each fit into ``memory``."""
    needed = row_count * ROW_DTYPE.itemsize * SORT_FACTOR
    parts = max(-(-needed // max(memory, 1)), min(parallelism, row_count // _ROWS_MIN), 1)
    return int(min(parts, PARTS_MAX) - 1).bit_length()


# ---------------------------------------------------------------------- first round


def scan_tasks(runs: Sequence[Compaction], size: int) -> list[ScanTask]:
    """Return tasks of about ``size`` bytes; smaller pairs share a task."""
    tasks: list[ScanTask] = []
    parts: list[Part] = []
    gathered = 0
    for part in _parts(runs, size):
        if parts and gathered + part.size > size + size // 4:
            tasks.append(ScanTask(len(tasks), tuple(parts)))
            parts, gathered = [], 0
        parts.append(part)
        gathered += part.size
    return [*tasks, ScanTask(len(tasks), tuple(parts))] if parts else tasks


def _parts(runs: Sequence[Compaction], size: int) -> Iterator[Part]:
    row = 0
    for number, run in enumerate(runs):
        for pair in run.old:
            for stretch in _stretches(run.files, pair, size):
                yield Part(
                    queue=number,
                    places=run.queue.places,
                    base=pair.base,
                    stretch=stretch,
                    row=row,
                    newest=run.newest_offset,
                )
                row += stretch.stop - stretch.first


def _stretches(files: PairFiles, pair: Pair, size: int) -> Iterator[Stretch]:
    """Cut a pair at records, whose positions its units state."""
    count = max(round(pair.size / size), 1)
    slot = begin = 0
    for number in range(1, count + 1):
        stop, end = pair.count, pair.size
        if number < count:
            stop, end = _slot_at(files, pair, number * pair.size // count)
        # Wrong units, which the scan reports, must not make a stretch go back.
        if stop > slot and begin < end <= pair.size:
            yield Stretch(slot, stop, begin, end)
            slot, begin = stop, end


def _slot_at(files: PairFiles, pair: Pair, position: int) -> tuple[int, int]:
    """Return the first message at ``position`` of the file or above, and where it begins."""
    low, high, found = 0, pair.count, pair.size
    while low < high:
        middle = (low + high) // 2
        at = int(files.read_units(pair, middle, middle + 1)["position"][0]) - pair.base
        if at < position:
            low = middle + 1
        else:
            high, found = middle, at
    return low, found


# ---------------------------------------------------------------------- second and third round


def merge_tasks(bits: int, scanned: Sequence[Scanned]) -> list[MergeTask]:
    """Return one task for each part of the hashes."""
    borders = (*(each.row for each in scanned), scanned[-1].end_row)
    return [
        MergeTask(
            part,
            tuple(
                Segment(each.keys, int(starts[part]), int(starts[part + 1] - starts[part]))
                for each in scanned
                for starts in each.starts
                if starts[part + 1] > starts[part]
            ),
            ROW_DTYPE.itemsize,
            borders,
        )
        for part in range(1 << bits)
    ]


def lay_tasks(
    runs: Sequence[Compaction], scanned: Sequence[Scanned], merged: Sequence[Merged]
) -> list[LayTask]:
    """Return tasks of whole queues, small ones together, with the findings about their rows."""
    tasks: list[LayTask] = []
    queues: list[QueueRows] = []
    row = 0
    for number, run in enumerate(runs):
        count = sum(pair.count for pair in run.old)
        queues.append(QueueRows(number, row, row + count))
        row += count
        if row - queues[0].row >= _ROWS_MIN or number == len(runs) - 1:
            tasks.append(_lay_task(queues, scanned, merged))
            queues = []
    return tasks


def _lay_task(
    queues: Sequence[QueueRows], scanned: Sequence[Scanned], merged: Sequence[Merged]
) -> LayTask:
    begin, end = queues[0].row, queues[-1].end_row
    first = next(number for number, each in enumerate(scanned) if each.end_row > begin)
    stop = next((number for number, each in enumerate(scanned) if each.row >= end), len(scanned))
    own = tuple(attrs.evolve(each, starts=each.starts[first : stop + 1]) for each in merged)
    # Without the places of the hashes, which this round does not need.
    bare = tuple(
        attrs.evolve(each, starts=np.zeros((0, 0), np.int64)) for each in scanned[first:stop]
    )
    return LayTask(tuple(queues), bare, own)


# ---------------------------------------------------------------------- fourth round


def write_tasks(laid: Sequence[LaidPair], scans: Sequence[ScanTask], size: int) -> list[WriteTask]:
    """Return tasks of about ``size`` bytes; smaller pairs share a task."""
    parts = [part for task in scans for part in task.parts]
    first_rows = np.array([part.row for part in parts])
    tasks: list[WriteTask] = []
    pairs: list[LaidPair] = []
    for number, pair in enumerate(laid):
        pairs.append(pair)
        is_last = number == len(laid) - 1
        if is_last or sum(each.size for each in pairs) + laid[number + 1].size // 2 > size:
            low = int(np.searchsorted(first_rows, pairs[0].row, "right")) - 1
            high = int(np.searchsorted(first_rows, pair.end_row))
            tasks.append(WriteTask(len(tasks), tuple(pairs), tuple(parts[low:high])))
            pairs = []
    return tasks

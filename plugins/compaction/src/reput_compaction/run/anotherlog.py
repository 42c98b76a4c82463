"""Cut compacted messages of another log where no notes say where their records stood.

A broker writes no notes. Its files may be of another store, or newer than a log that was put back
into an older state: then messages are missing that the run had replaced by later ones. The log is
compared with such files before it is dispatched to them from its beginning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from reput_compaction.filepairs.recordblock import block_of
from reput_compaction.queue.queueruns import runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput_compaction.filepairs.filepair import PairFiles
    from reput_compaction.queue.compactedqueue import CompactedQueue

__all__ = ["give_way"]

logger = logging.getLogger(__name__)

_Queues = dict[tuple[str, int], "CompactedQueue"]


def give_way(
    context: StoreContext, files: PairFiles, queues: Mapping[tuple[str, int], CompactedQueue]
) -> None:
    """Cut messages of queues without notes from the first message on that this log has of them.

    Only where the files are of another log: a message has another store time, or the log ends
    before the last one, and nothing in it is damaged. The caller dispatches the whole log to such
    queues.
    """
    lacking = {
        key: queue for key, queue in queues.items() if any(pair.lacks_notes for pair in queue.pairs)
    }
    if not lacking:
        return
    begins = context.log.min_physical_offset
    for key, first in _of_another_log(context, files, lacking).items():
        logger.warning("compacted messages are of another log file=%s", lacking[key].places.log)
        context.lower_progress(begins)
        _cut_from(files, lacking[key], first)


def _of_another_log(
    context: StoreContext, files: PairFiles, queues: _Queues
) -> dict[tuple[str, int], int]:
    """Return the first queue offset in this log, of queues whose files are of another log."""
    topics = frozenset(topic for topic, _ in queues)
    # A log that begins at 0 has all messages. Of another, compacted ones may all be older.
    first = {} if context.log.min_physical_offset else dict.fromkeys(queues, 0)
    seen, after, others, is_whole = set(), dict.fromkeys(first, 0), set(), True
    for batch in context.log.scan():
        is_whole = is_whole and batch.finding is None
        for run in runs(batch, topics):
            key = run.topic, run.queue_id
            if key not in queues:
                continue
            units = block_of(batch, run.rows).units
            if key not in seen:
                seen.add(key)
                first[key] = int(units["queue_offset"][0])
            after[key] = int(units["queue_offset"][-1]) + 1
            if key not in others and _differs(files, queues[key], units):
                others.add(key)
    if is_whole:  # else the log may have had the last messages of a queue
        others |= {key for key, end in after.items() if queues[key].max_offset > end}
    return {key: first[key] for key in sorted(others)}


def _differs(files: PairFiles, queue: CompactedQueue, asked: npt.NDArray[np.void]) -> bool:
    """Whether a message in the files has the queue offset of another one in the log."""
    low, high = asked["queue_offset"].min(), asked["queue_offset"].max()
    for pair in queue.pairs:
        if not pair.count or pair.first > high or pair.last < low:
            continue
        units = files.read_units(pair, 0, pair.count)
        offsets = units["queue_offset"].astype(np.int64)
        place = np.minimum(np.searchsorted(offsets, asked["queue_offset"]), pair.count - 1)
        found = offsets[place] == asked["queue_offset"]
        same = units["store_timestamp"][place] == asked["store_timestamp"]
        same &= units["size"][place] == asked["size"]
        if (found & ~same).any():
            return True
    return False


def _cut_from(files: PairFiles, queue: CompactedQueue, first: int) -> None:
    for pair in queue.pairs:
        units = files.read_units(pair, 0, pair.count)
        kept = int(np.count_nonzero(units["queue_offset"] < first))
        if kept < pair.count:
            queue.cut(pair, kept)
            return

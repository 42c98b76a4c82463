"""Compare compacted messages without notes with the log, and write their notes.

A broker writes no notes. Its files may be of another store, or newer than a log that was put back
into an older state, or the log may have been lost. So nothing of them is changed before all of the
log was compared with them. During the comparison, the note of a message that was found counts for
no reader, as it states the complement of the queue offset; so it takes no memory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_compaction.filepairs.offsetnotelayout import NOTE_SIZE, OLDER, UNKNOWN
from reput_compaction.filepairs.recordblock import block_of
from reput_compaction.queue.queueruns import runs
from reput_compaction.run.unitchecks import known_notes, valid_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput_compaction.filepairs.filepair import Pair, PairFiles
    from reput_compaction.filepairs.recordblock import RecordBlock
    from reput_compaction.queue.compactedqueue import CompactedQueue

logger = logging.getLogger(__name__)


def compare_with_log(
    context: StoreContext, files: PairFiles, queues: Sequence[CompactedQueue]
) -> None:
    """Give each message of some queues its note; the log is read once, if there is a queue.

    After a crash, a log that has some messages of a queue, but not all, has lost its end; so has
    one that has no message of a queue that was never compacted. Then the messages are cut from the
    first on that the log has or should have, and the log is dispatched again.

    Raises:
        CorruptFileError: the log does not have some messages of a queue, or has others in their
            place. Nothing was changed.
    """
    if not queues:
        return
    compared = {(each.topic, each.queue_id): _Compared(files, each) for each in queues}
    begins, is_whole = context.log.min_physical_offset, True
    for each in compared.values():
        each.begin(0 if begins == 0 else None)
    topics = frozenset(topic for topic, _ in compared)
    for batch in context.log.scan():
        is_whole = is_whole and batch.finding is None
        for run in runs(batch, topics):
            if (run.topic, run.queue_id) in compared:
                compared[run.topic, run.queue_id].take(block_of(batch, run.rows))
    others = [each for each in compared.values() if each.is_of_another_log(is_whole=is_whole)]
    for each in others:
        # Only messages that the log had on disk were compacted. Others it may have lost by a crash.
        if context.clean or (not each.found_count and each.queue.checkpoint >= 0):
            raise each.refusal()
    for each in others:
        logger.warning("compacted messages that the log lost file=%s", each.queue.places.log)
        context.lower_progress(begins)
        each.cut()
    for each in compared.values():
        each.settle()


@attrs.define(eq=False)
class _Compared:
    """Facts about one queue, beside the notes of its messages."""

    files: PairFiles
    queue: CompactedQueue
    first: int | None = None
    """Queue offset of the first message that the log has or should have; None if it has none."""
    found_count: int = 0
    differs_at: int | None = None
    """Queue offset of a message for which the log has another one."""

    def begin(self, first: int | None) -> None:
        """Remove notes that an interrupted comparison left."""
        self.first = first
        for pair in self.queue.pairs:
            units, notes = self._read(pair)
            if not len(units):
                continue
            known = known_notes(units, notes)
            if known.all():
                continue
            notes["queue_offset"][~known] = 0
            notes["end_offset"][~known] = UNKNOWN
            self._write(pair, notes, 0)

    def take(self, block: RecordBlock) -> None:
        """Compare messages of the log, in the order of their queue offsets."""
        asked = block.units["queue_offset"].astype(np.int64)
        if self.first is None:
            self.first = int(asked[0])
        low, high = int(asked.min()), int(asked.max())
        for pair in self.queue.pairs:
            if pair.count and pair.first <= high and (pair.last >= low or pair.size < 0):
                self._take(pair, block, asked)

    def _take(self, pair: Pair, block: RecordBlock, asked: npt.NDArray[np.int64]) -> None:
        units, notes = self._read(pair)
        offsets = units["queue_offset"].astype(np.int64)
        if not len(offsets):
            return
        place = np.minimum(np.searchsorted(offsets, asked), len(offsets) - 1)
        row = np.flatnonzero((offsets[place] == asked) & ~known_notes(units, notes)[place])
        place = place[row]
        same = units["store_timestamp"][place] == block.units["store_timestamp"][row]
        same &= units["size"][place] == block.units["size"][row]
        if not same.all() and self.differs_at is None:
            self.differs_at = int(offsets[place[~same]][0])
        place, row = place[same], row[same]
        if len(place):
            self.found_count += len(place)
            notes["queue_offset"][place] = ~offsets[place]
            notes["end_offset"][place] = block.notes["end_offset"][row]
            begin, end = int(place.min()), int(place.max()) + 1
            self._write(pair, notes[begin:end], begin)

    def is_of_another_log(self, *, is_whole: bool) -> bool:
        """Whether the log has another message in place of one, or lacks one.

        Args:
            is_whole: whether nothing in the log is damaged; otherwise a damaged part may have had
                the messages that it lacks.
        """
        if is_whole and self.differs_at is None and self.first is not None:
            for pair in self.queue.pairs:
                units, notes = self._read(pair)
                missing = ~known_notes(units, notes) & ~_is_found(units, notes)
                missing &= units["queue_offset"] >= self.first
                if missing.any():
                    self.differs_at = int(units["queue_offset"][missing][0])
                    break
        return self.differs_at is not None

    def refusal(self) -> CorruptFileError:
        """Return the error that names the queue and what to do."""
        queue = self.queue
        return CorruptFileError(
            queue.places.log,
            0,
            f"the commit log does not have the message of queue offset {self.differs_at} that is "
            "kept here; nothing was changed, and the store can be read (mode='r'). Put the log "
            f"back that has it, or move this directory and {queue.places.queue} out of the store: "
            "then the queue is compacted from this log, which may have fewer messages",
        )

    def cut(self) -> None:
        """Cut from the first message on that the log has."""
        assert self.first is not None
        for pair in self.queue.pairs:
            kept = int(np.count_nonzero(self._read(pair)[0]["queue_offset"] < self.first))
            if kept < pair.count:
                self.queue.cut(pair, kept)
                return

    def settle(self) -> None:
        """Make the notes count; messages that were not found are marked as older than the log."""
        for pair in self.queue.pairs:
            units, notes = self._read(pair)
            found, known = _is_found(units, notes), known_notes(units, notes)
            if len(units) and not known.all():
                notes["end_offset"][~found & ~known] = OLDER
                notes["queue_offset"] = units["queue_offset"]
                self._write(pair, notes, 0)
            pair.lacks_notes = False
            if pair.size >= 0:
                self.files.note_extent(pair)

    def _read(self, pair: Pair) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        units = self.files.read_units(pair, 0, pair.count)
        units = units[: valid_units(units, pair.base, self.files.sizes.log)]
        return units, self.files.read_notes(pair, 0, len(units))

    def _write(self, pair: Pair, notes: npt.NDArray[np.void], first: int) -> None:
        self.files.pool.write(pair.notes, notes.tobytes(), first * NOTE_SIZE)
        self.files.unflushed.written(pair)


def _is_found(units: npt.NDArray[np.void], notes: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = notes["queue_offset"] == ~units["queue_offset"].astype(np.int64)
    return found

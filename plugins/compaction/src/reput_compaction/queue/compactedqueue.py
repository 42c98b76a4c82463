"""`CompactedQueue`: the pairs of one queue, and how messages are appended to them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record.layout import BLANK_MIN_SIZE
from reput_compaction.filepairs.offsetnotelayout import NOTE_SIZE, UNKNOWN
from reput_compaction.filepairs.recordblock import block_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_compaction.filepairs.filepair import Pair, PairFiles
    from reput_compaction.filepairs.queuenames import Places


@attrs.define(eq=False)
class CompactedQueue:
    """One queue of a compacted topic."""

    topic: str
    queue_id: int
    places: Places
    files: PairFiles
    pairs: tuple[Pair, ...] = ()
    """Oldest first; the tuple is replaced whole, so that readers need no lock."""
    lock: threading.RLock = attrs.field(factory=threading.RLock)
    """Held for every change of the pairs."""
    checkpoint: int = -1
    """Queue offset of the last message that a compaction has seen."""
    refused_count: int = 0
    """Messages whose queue offset is not above all earlier ones, or that fit into no file."""
    lowest_base: int = 0
    """Lowest base for a new pair: lower names are taken, or were a moment ago."""
    tombstone_timestamp: int | None = None
    """Store time of the oldest tombstone in the compacted pairs, ms; None if there is none."""

    # ------------------------------------------------------------------ extent

    @property
    def max_offset(self) -> int:
        """Queue offset after the last message; 0 when the queue is empty."""
        return next((pair.last + 1 for pair in reversed(self.pairs) if pair.count), 0)

    @property
    def min_offset(self) -> int:
        """Queue offset of the first message; 0 when the queue is empty."""
        return next((pair.first for pair in self.pairs if pair.count), 0)

    @property
    def end_offset(self) -> int:
        """Physical offset after the last message, as far as it is known."""
        return next((pair.end_offset for pair in reversed(self.pairs) if pair.count), UNKNOWN)

    @property
    def count(self) -> int:
        """Number of messages."""
        return sum(pair.count for pair in self.pairs)

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return sum(pair.size for pair in self.pairs)

    # ------------------------------------------------------------------ appending

    def append(self, batch: DispatchBatch, rows: npt.NDArray[np.int64]) -> None:
        """Append the rows of a batch, all of this queue, that are not there yet."""
        with self.lock:
            rows = self._fresh(batch, rows)
            if len(rows):
                last = self.pairs[-1] if self.pairs else None
                self.files.write_block(block_of(batch, rows), last, self._next_pair)

    def _fresh(self, batch: DispatchBatch, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return rows with a queue offset above all before them that fit into a file."""
        offsets = batch.queue_offset[rows]
        highest = np.maximum.accumulate(np.append(self.max_offset - 1, offsets[:-1]))
        fits = batch.size[rows] + BLANK_MIN_SIZE <= self.files.sizes.log
        wanted = (offsets > highest) & fits
        if not wanted.all():
            # Messages that come again after a crash end at or below `end_offset`: no refusals.
            ends = batch.physical_offset[rows] + batch.size[rows]
            self.refused_count += int((~wanted & (ends > self.end_offset)).sum())
            rows = rows[wanted]
        return rows

    def _next_pair(self, last: Pair | None) -> Pair:
        base = self.lowest_base
        if last is not None:
            base = max(base, last.base + self.files.sizes.log)
        pair = self.files.make(self.places, base)
        self.pairs = (*self.pairs, pair)
        return pair

    def close_last(self) -> None:
        """Close the last pair, so that it can be compacted."""
        with self.lock:
            if self.pairs and self.pairs[-1].count and not self.pairs[-1].is_closed:
                self.files.close(self.pairs[-1])

    # ------------------------------------------------------------------ cutting

    def cut(self, pair: Pair, count: int) -> None:
        """Remove everything after the first ``count`` messages of a pair."""
        with self.lock:
            at = self.pairs.index(pair)
            # The last pairs first: a crash must not leave a pair after the cut.
            while len(self.pairs) > at + (count > 0):
                self.files.remove(self.pairs[-1])
                self.pairs = self.pairs[:-1]
            if count:
                self.files.cut(pair, count)
            elif self.pairs and self.pairs[-1].is_closed:
                # The pair was closed because of the removed pairs: open it for appends again.
                self.files.cut(self.pairs[-1], self.pairs[-1].count)

    def replace(self, old: tuple[Pair, ...], new: tuple[Pair, ...]) -> None:
        """Replace the pairs ``old`` by ``new``; the caller holds the lock."""
        assert self.pairs[: len(old)] == old
        self.pairs = (*new, *self.pairs[len(old) :])

    def write_notes(self, pair: Pair, notes: npt.NDArray[np.void]) -> None:
        """Replace the notes of a pair."""
        self.files.pool.write(pair.notes, notes.tobytes(), 0)
        self.files.unflushed.written(pair)
        if pair.count:
            pair.end_offset = int(notes["end_offset"][pair.count - 1])
        assert len(notes) * NOTE_SIZE <= self.files.note_file_size

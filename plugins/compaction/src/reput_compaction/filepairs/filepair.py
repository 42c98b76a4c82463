"""Pairs of files, a log and the queue that leads to its records, and how they are written.

Blocks are written here, and this module decides into which pair each record goes, as RocketMQ does:
a record that does not fit with eight bytes to spare, or would take the last slot of the queue file,
goes into the next pair, and the pair before gets its end marks.

Different on purpose: the last file of a compaction is closed by a blank record like all others,
where RocketMQ leaves zeros.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.files import DirtyFiles, FilePool, Handle, ReplacedError, file_name
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput_compaction.filepairs.offsetnotelayout import NOTE_DTYPE, NOTE_SIZE, UNKNOWN
from reput_compaction.filepairs.recordblock import RecordBlock, state_positions
from reput_compaction.layout import END_UNIT, UNIT_DTYPE, UNIT_SIZE, FileSizes

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput_compaction.filepairs.queuenames import Places


@attrs.define(eq=False, repr=False)
class Pair:
    """A log file, its queue file and its notes."""

    base: int
    """Position of the first record, which is the files' name."""
    log: Handle
    queue: Handle
    notes: Handle
    count: int = 0
    """Messages."""
    size: int = 0
    """Bytes of their records."""
    first: int = -1
    """Queue offset of the first message; -1 when there is none."""
    last: int = -1
    end_offset: int = UNKNOWN
    """Physical offset after the last message, as its note says."""
    timestamp: int = 0
    """Store time of the first message, ms."""
    is_closed: bool = False
    """Whether the pair takes no more messages."""
    lacks_notes: bool = False
    """Whether some messages have no note yet."""

    @property
    def handles(self) -> tuple[Handle, Handle, Handle]:
        """The three files."""
        return self.log, self.queue, self.notes

    @classmethod
    def at(cls, places: Places, base: int) -> Pair:
        """Return the pair of that name in some directories."""
        name = file_name(base)
        log, queue, notes = (Handle(f"{directory}/{name}") for directory in places)
        return cls(base, log, queue, notes)


class PairFiles:
    """What all queues share: the disk, file sizes, open files, and what is unflushed."""

    def __init__(self, root: str, disk: Disk, pool: FilePool, sizes: FileSizes) -> None:
        self.root = root
        self.disk = disk
        self.pool = pool
        self.sizes = sizes
        self.unflushed: DirtyFiles[Pair] = DirtyFiles(disk, self.flush_pair)

    @property
    def note_file_size(self) -> int:
        """Bytes of a file of notes."""
        return self.sizes.queue // UNIT_SIZE * NOTE_SIZE

    @property
    def all_sizes(self) -> tuple[int, int, int]:
        """Bytes of the three files of a pair."""
        return *self.sizes, self.note_file_size

    # ------------------------------------------------------------------ reading

    def read_units(self, pair: Pair, first: int, stop: int) -> npt.NDArray[np.void]:
        """Return slots ``[first, stop)`` of the queue file, as far as it goes: `UNIT_DTYPE`."""
        size = max(stop - first, 0) * UNIT_SIZE
        data = self.pool.read(pair.queue, size, first * UNIT_SIZE)
        return np.frombuffer(data, UNIT_DTYPE, len(data) // UNIT_SIZE)

    def read_unit(self, pair: Pair, number: int) -> np.void:
        """Return one slot of the queue file.

        Raises:
            CorruptFileError: the file ends before it, as a writer is cutting it.
        """
        found = self.read_units(pair, number, number + 1)
        if not len(found):
            reason = f"the file ends before unit {number}, which it had"
            raise CorruptFileError(pair.queue.path, number * UNIT_SIZE, reason)
        unit: np.void = found[0]
        return unit

    def read_notes(self, pair: Pair, first: int, stop: int) -> npt.NDArray[np.void]:
        """Return slots ``[first, stop)`` of the notes: `NOTE_DTYPE`, zero where no note exists."""
        found = np.zeros(max(stop - first, 0), NOTE_DTYPE)
        try:
            data = self.pool.read(pair.notes, len(found) * NOTE_SIZE, first * NOTE_SIZE)
        except FileNotFoundError:
            return found  # the store was written by RocketMQ
        known = np.frombuffer(data, NOTE_DTYPE, len(data) // NOTE_SIZE)
        found[: len(known)] = known
        return found

    # ------------------------------------------------------------------ writing

    def write_block(
        self, block: RecordBlock, pair: Pair | None, next_pair: Callable[[Pair | None], Pair]
    ) -> Pair | None:
        """Append a block, to as many pairs as it takes.

        Args:
            block: records, each of which fits into a file.
            pair: the last pair; None if there is no pair yet.
            next_pair: makes the pair after the one given.

        Returns:
            The last pair written; ``pair`` for an empty block.
        """
        ends = np.cumsum(block.units["size"], dtype=np.int64)
        row, count, begun = 0, len(ends), 0
        while row < count:
            if pair is None or pair.is_closed:
                pair = next_pair(pair)
            stop = self.sizes.stop_of(ends, row, begun, pair.count, pair.size)
            if stop <= row:
                self.close(pair)
                continue
            end = int(ends[stop - 1])
            self._write(pair, block, slice(row, stop), slice(begun, end))
            row, begun = stop, end
        return pair

    def _write(self, pair: Pair, block: RecordBlock, rows: slice, part: slice) -> None:
        units, notes = block.units[rows], block.notes[rows]
        sizes = units["size"].astype(np.int64)
        starts = np.cumsum(sizes) - sizes
        units["position"] = starts + pair.base + pair.size
        state_positions(block.data, starts + part.start, units["position"])
        with memoryview(block.data) as data:
            self.pool.write(pair.log, data[part], pair.size)
        self.pool.write(pair.notes, notes.tobytes(), pair.count * NOTE_SIZE)
        # The units last: a concurrent reader of a unit must find the record that it leads to.
        self.pool.write(pair.queue, units.tobytes(), pair.count * UNIT_SIZE)
        self.unflushed.written(pair)
        if pair.count == 0:
            pair.first = int(units["queue_offset"][0])
            pair.timestamp = int(units["store_timestamp"][0])
        pair.last = int(units["queue_offset"][-1])
        pair.end_offset = int(notes["end_offset"][-1])
        pair.size += part.stop - part.start
        pair.count += len(units)

    def close(self, pair: Pair) -> None:
        """Write the end marks, after which nothing is appended."""
        self.pool.write(pair.queue, END_UNIT, pair.count * UNIT_SIZE)
        blank = SIZE_AND_MAGIC.pack(self.sizes.log - pair.size, BLANK_MAGIC)
        self.pool.write(pair.log, blank, pair.size)
        self.unflushed.written(pair)
        pair.is_closed = True

    def make(self, places: Places, base: int) -> Pair:
        """Create an empty pair with files of full size."""
        pair = Pair.at(places, base)
        for directory, handle, size in zip(places, pair.handles, self.all_sizes, strict=True):
            self.make_directory(directory)
            descriptor = self.disk.open(handle.path, create=True)
            try:
                # A failed attempt, or a crash, may have left a file of that name.
                self.disk.truncate(descriptor, 0)
                # Takes no space yet: a full disk is an error of the write that needs the space.
                self.disk.truncate(descriptor, size)
            finally:
                self.disk.close(descriptor)
            self.unflushed.named(directory)
        self.unflushed.written(pair)
        return pair

    def cut(self, pair: Pair, count: int) -> None:
        """Remove everything after the first ``count`` messages of a pair."""
        size = 0
        if count:
            unit = self.read_units(pair, count - 1, count)[0]
            size = int(unit["position"]) + int(unit["size"]) - pair.base
        used = (size, count * UNIT_SIZE, count * NOTE_SIZE)
        cuts = list(zip(pair.handles, used, self.all_sizes, strict=True))
        # The units first: a concurrent reader, or one after a crash in between, must not find a
        # unit that leads to a removed record.
        for handle, kept, full in (cuts[1], cuts[2], cuts[0]):
            with self.pool.descriptor(handle) as descriptor:
                self.disk.truncate(descriptor, kept)
                self.disk.truncate(descriptor, full)
        self.unflushed.written(pair)
        pair.is_closed = False
        pair.count, pair.size = count, size
        self.note_extent(pair)

    def note_extent(self, pair: Pair) -> None:
        """Set the pair's fields that depend on its first and its last message."""
        pair.first = pair.last = -1
        pair.end_offset, pair.timestamp = UNKNOWN, 0
        if pair.count:
            first = self.read_unit(pair, 0)
            last = self.read_unit(pair, pair.count - 1)
            note = self.read_notes(pair, pair.count - 1, pair.count)[0]
            pair.first, pair.timestamp = int(first["queue_offset"]), int(first["store_timestamp"])
            pair.last = int(last["queue_offset"])
            if note["queue_offset"] == pair.last:
                pair.end_offset = int(note["end_offset"])

    def remove(self, pair: Pair) -> None:
        """Remove the files of a pair that no reader will open."""
        for handle in pair.handles:
            self.pool.forget(handle)
            try:
                self.disk.remove(handle.path)
            except FileNotFoundError:
                continue
            self.unflushed.named(os.path.dirname(handle.path))
        self.unflushed.forget(pair)

    # ------------------------------------------------------------------ to disk

    def make_directory(self, path: str) -> None:
        """Create a directory; the next flush makes its name durable."""
        missing = []
        while path != self.root and not self.disk.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            self.disk.make_one_directory(each)
            self.unflushed.named(os.path.dirname(each))

    def flush_pair(self, pair: Pair) -> None:
        """Flush one pair; do nothing if the pair was replaced meanwhile.

        If the pair is still being made, a failure concerns that pair only: it is recreated.
        """
        self.unflushed.forget(pair)
        for handle in pair.handles:
            with contextlib.suppress(ReplacedError, FileNotFoundError):
                self.pool.flush(handle)

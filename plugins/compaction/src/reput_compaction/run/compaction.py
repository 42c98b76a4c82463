"""`Compaction`: one run over one queue, in small steps.

The first pass hashes the keys of all closed pairs; of equal keys all but the last are superseded.
The second pass copies the records that stay into new pairs, which then replace the old ones. Until
then, nothing that readers see changes.

Source: RocketMQ ``CompactionLog#compaction``. Different on purpose:
tombstones stay for a while, so that slow readers see them, and the newest message of a queue always
stays, so that the queue's greatest offset does. Keys of old and new pairs are treated alike;
RocketMQ looks at new ones only, with the same result. Only messages that the log has on disk are
compacted: a message must not supersede another if a power cut can still take it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_compaction.filepairs.filepair import Pair
from reput_compaction.filepairs.offsetnotelayout import SPILL_PREFIX
from reput_compaction.filepairs.pairloader import look_into
from reput_compaction.filepairs.pairscan import windows
from reput_compaction.filepairs.recordblock import RecordBlock, gathered
from reput_compaction.filepairs.replacement import Replacement, clear_work_area
from reput_compaction.run.superseded import KeyHash, SupersededRows
from reput_compaction.run.tombstones import Tombstones

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_compaction.filepairs.filepair import PairFiles
    from reput_compaction.filepairs.pairscan import Window
    from reput_compaction.queue.compactedqueue import CompactedQueue
    from reput_compaction.run.checkpoint import Checkpoint
    from reput_compaction.run.keeprules import KeepRules


@attrs.frozen(kw_only=True)
class Compacted:
    """The result of one run for a queue."""

    topic: str
    queue_id: int
    messages_before: int
    messages_after: int
    size_before: int
    """Bytes of records."""
    size_after: int
    files_before: int
    """Pairs of files."""
    files_after: int


@attrs.frozen
class Made:
    """A new pair whose bytes are on disk."""

    queue: int
    base: int
    paths: tuple[str, str, str]
    """Paths of the records, the units and the notes."""
    extent: tuple[int, int, int, bool]
    """Messages, bytes of their records, last queue offset; whether the pair is closed."""
    tombstone_timestamp: int | None
    """Store time of the pair's oldest tombstone that stays for a time, ms."""


@attrs.define(eq=False)
class Compaction:
    """A run over the closed pairs of one queue."""

    queue: CompactedQueue
    files: PairFiles
    checkpoint: Checkpoint
    rules: KeepRules
    now: int
    """The store's clock when the run began, ms."""
    old: tuple[Pair, ...]
    """Pairs to be compacted: the first pairs of the queue, all of them closed."""
    new: list[Pair] = attrs.field(factory=list)
    result: Compacted | None = None
    tombstone_timestamp: int | None = None
    """Store time of the oldest tombstone that stays for a time, ms."""
    _stays: npt.NDArray[np.bool_] = attrs.field(factory=lambda: np.zeros(0, bool))
    _waits: npt.NDArray[np.bool_] = attrs.field(factory=lambda: np.zeros(0, bool))

    @property
    def total(self) -> int:
        """Bytes that the run will read."""
        return 2 * sum(pair.size for pair in self.old)

    def steps(self) -> Generator[int, None, None]:
        """Compact, and yield after each step the bytes that it read."""
        places, disk = self.queue.places, self.files.disk
        clear_work_area(disk, places)
        try:
            yield from self._look_for_successors()
            yield from self._copy()
            yield from self._publish()
        except BaseException:
            self._give_up()
            raise

    def steps_with(self, made: Sequence[Made]) -> Generator[int, None, None]:
        """Do the same with pairs that tasks have made already; else as `steps`.

        Raises:
            CorruptFileError: a pair does not hold what its task says; nothing was changed.
        """
        clear_work_area(self.files.disk, self.queue.places)
        try:
            for each in made:
                self._take(each)
                yield 0
            yield from self._publish()
        except BaseException:
            self._give_up()
            raise

    def _take(self, made: Made) -> None:
        """Move a made pair into the work area, where `steps` would have written it."""
        work, disk = self.queue.places.compacting, self.files.disk
        pair = Pair.at(work, made.base)
        for directory, path, handle in zip(work, made.paths, pair.handles, strict=True):
            self.files.make_directory(directory)
            disk.rename(path, handle.path)
            self.files.unflushed.named(directory)
        self.new.append(pair)
        look_into(self.files, pair)
        if (pair.count, pair.size, pair.last, pair.is_closed) != made.extent:
            raise CorruptFileError(
                pair.queue.path,
                0,
                f"(messages, bytes, last queue offset, closed) are {made.extent} as its task says, "
                f"and {(pair.count, pair.size, pair.last, pair.is_closed)} in the file; do all "
                "tasks have the store's directory from the same file system?",
            )
        self._note_tombstone(made.tombstone_timestamp)

    # ------------------------------------------------------------------ the two passes

    def _look_for_successors(self) -> Iterator[int]:
        """Find out which rows stay; rows are numbered over all old pairs."""
        count = sum(pair.count for pair in self.old)
        scratch = f"{self.queue.places.compacting.notes}/{SPILL_PREFIX}"
        rows = SupersededRows(count, self.rules.memory, self.files.disk, scratch)
        if rows.spills:
            self.files.disk.make_directory(self.queue.places.compacting.notes)
        self._stays, self._waits = np.zeros(count, bool), np.zeros(count, bool)
        key_hash, newest, begin = KeyHash(), self.newest_offset, 0
        for pair in self.old:
            for window in windows(self.files, pair):
                keys, has_body = window.keys_and_bodies()
                rows.add(*key_hash(keys))
                stop = begin + len(window.units)
                self._stays[begin:stop], self._waits[begin:stop] = self.rules.judge(
                    window, keys, has_body, newest, self.now
                )
                begin = stop
                yield len(window.data)
        for part in range(rows.part_count):
            rows.finish(part)
            yield 0
        self._stays &= ~rows.superseded

    @property
    def newest_offset(self) -> int:
        """Queue offset that stays in any case, as it is the queue's last; -1 for none."""
        if len(self.queue.pairs) > len(self.old):
            return -1
        return self.old[-1].last

    def _copy(self) -> Iterator[int]:
        begin = 0
        for pair in self.old:
            for window in windows(self.files, pair):
                stop = begin + len(window.units)
                rows = np.flatnonzero(self._stays[begin:stop])
                if len(rows):
                    self._write(window, rows, self._waits[begin:stop][rows])
                begin = stop
                yield len(window.data)
        if self.new:
            self.files.close(self.new[-1])
        for each in self.new:
            self.files.flush_pair(each)
            yield 0

    def _write(
        self,
        window: Window,
        rows: npt.NDArray[np.int64],
        tombstones: npt.NDArray[np.bool_],
    ) -> None:
        units = window.units[rows]  # a copy
        stop = window.first + len(window.units)
        notes = self.files.read_notes(window.pair, window.first, stop)[rows]
        if tombstones.any():
            self._note_tombstone(int(units["store_timestamp"][tombstones].min()))
        data = gathered(window.data, window.starts[rows], window.sizes[rows])
        last = self.new[-1] if self.new else None
        self.files.write_block(RecordBlock(data, units, notes), last, self._next_pair)

    def _note_tombstone(self, timestamp: int | None) -> None:
        known = [each for each in (timestamp, self.tombstone_timestamp) if each is not None]
        self.tombstone_timestamp = min(known, default=None)

    def _next_pair(self, last: Pair | None) -> Pair:
        base = 0 if last is None else last.base + self.files.sizes.log
        # The new pairs begin at 0 and hold less than the old: they stay below the pairs after.
        assert base <= self.old[-1].base
        pair = self.files.make(self.queue.places.compacting, base)
        self.new.append(pair)
        return pair

    # ------------------------------------------------------------------ publishing

    def _publish(self) -> Iterator[int]:
        self.files.make_directory(self.queue.places.notes)
        # Bytes and names of the new pairs, and the directories that contain them.
        self.files.unflushed.flush()
        yield 0
        self.finish()

    @property
    def is_decided(self) -> bool:
        """Whether the new pairs count already; if true, only `finish` is left to do."""
        return self.result is None and self.files.disk.exists(Replacement.path(self.queue.places))

    def finish(self) -> None:
        """Rename the new pairs in place of the old ones; may be repeated after a failure."""
        queue, disk, places = self.queue, self.files.disk, self.queue.places
        replacement = Replacement(
            tuple(pair.base for pair in self.old),
            tuple(pair.base for pair in self.new),
            self.old[-1].last,
            self.tombstone_timestamp,
        )
        with queue.lock:
            queue.lowest_base = max(pair.base for pair in queue.pairs) + self.files.sizes.log
            if not self.is_decided:
                replacement.save(disk, places)
            for pair in self.old:
                for handle in pair.handles:
                    # A reader with the file open goes on; any other waits for the lock.
                    self.files.pool.forget(handle)
            try:
                replacement.rename(disk, places)
            finally:
                self._take_over()
        self.checkpoint.set(queue.topic, queue.queue_id, replacement.checkpoint)
        queue.checkpoint = replacement.checkpoint
        Tombstones(replacement.tombstone).save(disk, places)
        queue.tombstone_timestamp = self.tombstone_timestamp
        replacement.forget(disk, places)
        clear_work_area(disk, places)
        self.result = self._made()

    def _take_over(self) -> None:
        """Give readers the new pairs, whichever directory their files are in by now."""
        places, disk = self.queue.places, self.files.disk
        for pair in self.new:
            final = Pair.at(places, pair.base)
            moving = Pair.at(places.compacting, pair.base)
            for handle, place, work in zip(
                pair.handles, final.handles, moving.handles, strict=True
            ):
                handle.path = work.path if disk.exists(work.path) else place.path
        if self.queue.pairs[: len(self.old)] == self.old:
            self.queue.replace(self.old, tuple(self.new))

    def _made(self) -> Compacted:
        return Compacted(
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            messages_before=sum(pair.count for pair in self.old),
            messages_after=sum(pair.count for pair in self.new),
            size_before=sum(pair.size for pair in self.old),
            size_after=sum(pair.size for pair in self.new),
            files_before=len(self.old),
            files_after=len(self.new),
        )

    def _give_up(self) -> None:
        """Close the new pairs, which will not be used."""
        if self.result is not None or self.is_decided:
            return
        for pair in self.new:
            for handle in pair.handles:
                self.files.pool.forget(handle)
        with contextlib.suppress(OSError):  # the next opening, or the next run, clears it
            clear_work_area(self.files.disk, self.queue.places)

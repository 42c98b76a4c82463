"""`Compaction`: one run over one queue, in small steps.

The first pass hashes the keys of all closed pairs; of equal ones all but the last are superseded.
The second pass copies what stays into new pairs, which then take the place of the old ones. Nothing
that readers see changes before that.

Source: RocketMQ ``CompactionLog#compaction``. Different on purpose, unless ``compat`` is set:
tombstones stay for a while, so that whoever reads slowly sees them, and the newest message of a
queue always stays, so that its greatest offset does. Keys of old and new pairs are looked at alike;
RocketMQ looks at new ones only, which comes to the same. Only what the log has on disk is
compacted: nothing may be dropped for the sake of a message that a power cut could take.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_compaction.pairs._block import Block, gathered
from reput_compaction.pairs._load import look_into
from reput_compaction.pairs._pairs import Pair
from reput_compaction.pairs._replacing import Replacement, clear_work_area
from reput_compaction.pairs._scan import windows
from reput_compaction.pairs.notelayout import SPILL_PREFIX
from reput_compaction.run._superseded import KeyHash, SupersededRows
from reput_compaction.run._tombstones import Tombstones

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_compaction.pairs._pairs import Files
    from reput_compaction.pairs._scan import Window
    from reput_compaction.queue._queue import CompactedQueue
    from reput_compaction.run._checkpoint import Checkpoint
    from reput_compaction.run._rules import Rules

__all__ = ["Compacted", "Compaction", "Made"]


@attrs.frozen(kw_only=True)
class Compacted:
    """What one run made of a queue."""

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
    """A pair that was written; its bytes are on disk."""

    queue: int
    base: int
    paths: tuple[str, str, str]
    """Records, units, notes."""
    extent: tuple[int, int, int, bool]
    """Messages, bytes of their records, last queue offset; that it is closed."""
    tombstone_timestamp: int | None
    """Store time of the oldest tombstone in it that stays for a time, ms."""


@attrs.define(eq=False)
class Compaction:
    """A run over the closed pairs of one queue."""

    queue: CompactedQueue
    files: Files
    checkpoint: Checkpoint
    rules: Rules
    now: int
    """The store's clock when it began, ms."""
    old: tuple[Pair, ...]
    """Pairs to be compacted: the first ones of the queue, all of them closed."""
    new: list[Pair] = attrs.field(factory=list)
    result: Compacted | None = None
    tombstone_timestamp: int | None = None
    """Store time of the oldest tombstone that stays for a time, ms."""
    _stays: npt.NDArray[np.bool_] = attrs.field(factory=lambda: np.zeros(0, bool))
    _waits: npt.NDArray[np.bool_] = attrs.field(factory=lambda: np.zeros(0, bool))

    @property
    def total(self) -> int:
        """Bytes that the run reads."""
        return 2 * sum(pair.size for pair in self.old)

    def steps(self) -> Generator[int, None, None]:
        """Do it; yields the bytes read between each two steps."""
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
        """Take pairs that others have made in the place of making them; else as `steps`.

        Raises:
            CorruptFileError: a pair does not hold what its makers say; nothing was changed.
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
        """Move a pair into the work area, which is as far as it could have come in `steps`."""
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
        """Find out which rows stay; rows are counted over all old pairs."""
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
        """Queue offset that stays in any case, as no later one is in the queue; -1 for none."""
        if self.rules.compat or len(self.queue.pairs) > len(self.old):
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
        self.files.write_block(Block(data, units, notes), last, self._next_pair)

    def _note_tombstone(self, timestamp: int | None) -> None:
        known = [each for each in (timestamp, self.tombstone_timestamp) if each is not None]
        self.tombstone_timestamp = min(known, default=None)

    def _next_pair(self, last: Pair | None) -> Pair:
        base = 0 if last is None else last.base + self.files.sizes.log
        # What is copied is less than what there was, and begins at 0: it stays below what follows.
        assert base <= self.old[-1].base
        pair = self.files.make(self.queue.places.compacting, base)
        self.new.append(pair)
        return pair

    # ------------------------------------------------------------------ publishing

    def _publish(self) -> Iterator[int]:
        self.files.make_directory(self.queue.places.notes)
        # Bytes and names of the new pairs, and the directories that lead to them.
        self.files.unflushed.flush()
        yield 0
        self.finish()

    @property
    def is_decided(self) -> bool:
        """Whether the new pairs count; what is left to do then is left to `finish`."""
        return self.result is None and self.files.disk.exists(Replacement.path(self.queue.places))

    def finish(self) -> None:
        """Put the new pairs in the place of the old ones; may be called again where it failed."""
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
                    # Who has it open goes on reading; who has not waits for the lock.
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
        """Have readers find the new pairs, wherever their files are by now."""
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
        """Close what was made and is not going to count."""
        if self.result is not None or self.is_decided:
            return
        for pair in self.new:
            for handle in pair.handles:
                self.files.pool.forget(handle)
        with contextlib.suppress(OSError):  # an opening, or the next run, does it
            clear_work_area(self.files.disk, self.queue.places)

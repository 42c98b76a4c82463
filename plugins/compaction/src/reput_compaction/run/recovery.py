"""Recover the pairs of a queue: bring them in line with a log that ends at a given offset.

Source: RocketMQ ``SparseConsumeQueue#recover``, ``CompactionLog#recover``: the last three files are
checked, and cut after their sound part. Different on purpose: records are compared with their
units; messages from above the end of the commit log, or dispatched again, are cut, for which notes
are needed; and damaged messages are dispatched from the log again, as far as it still has them.
"""

from __future__ import annotations

import functools
import itertools
import logging
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.record import Decoder
from reput.record.layout import BLANK_MAGIC, BLANK_MIN_SIZE, FILLER_TOPIC, SIZE_AND_MAGIC
from reput_compaction.filepairs.filepair import Pair
from reput_compaction.filepairs.offsetnotelayout import NOTE_SIZE, OLDER, UNKNOWN
from reput_compaction.filepairs.pairloader import bases_in, look_into, paired, unit_count
from reput_compaction.filepairs.replacement import Replacement, clear_work_area, repair_others
from reput_compaction.layout import END_UNIT, UNIT_SIZE
from reput_compaction.run.tombstones import Tombstones
from reput_compaction.run.unitchecks import known_notes, valid_units

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput_compaction.filepairs.filepair import PairFiles
    from reput_compaction.filepairs.queuenames import Places
    from reput_compaction.queue.compactedqueue import CompactedQueue
    from reput_compaction.run.checkpoint import Checkpoint

logger = logging.getLogger(__name__)

_LAST_PAIRS = 3  # number of pairs that are checked fully after a crash, and against the log
_LAST_RECORDS = 8  # of each pair, that are looked for in the log


def finish_replacement(
    context: StoreContext, places: Places, queue: tuple[str, int], checkpoint: Checkpoint
) -> None:
    """Finish an interrupted replacement, or clear what an interrupted run left."""
    disk = context.disk
    replacement = Replacement.load(disk, places)
    if replacement is not None:
        replacement.rename(disk, places)
        checkpoint.set(*queue, replacement.checkpoint)
        Tombstones(replacement.tombstone).save(disk, places)
        replacement.forget(disk, places)
        logger.info("finished a replacement directory=%s", places.log)
    else:
        repair_others(disk, places)
    clear_work_area(disk, places)


@attrs.define(eq=False, slots=False)  # `_lost_to` is kept in the object's dictionary
class QueueRecovery:
    """Recovers one queue of a store that is open for writing: first `load`, then `run`."""

    context: StoreContext
    queue: CompactedQueue
    files: PairFiles
    limit: int
    """Physical offset above which no message may stay."""
    needed: int = -1
    """Physical offset from which on the queue needs the log; known after `run`."""
    _intact: dict[int, int | None] = attrs.field(init=False, factory=dict)
    """By base, how many bytes of a file of records are original, as `_give_sizes` returns it."""

    def load(self) -> None:
        """Find the pairs, and what each of them holds; restore the sizes of files."""
        self.needed = self.limit
        pairs, halves = paired(self.context.disk, self.queue.places)
        self._drop_halves(pairs, halves)
        self._check_bases(pairs)
        self._drop_stray_notes({pair.base for pair in pairs})
        self.queue.pairs = tuple(pairs)
        self._intact = {pair.base: self._give_sizes(pair) for pair in pairs}
        for number, pair in enumerate(pairs):
            self._look(pair)
            if (
                pair.lacks_notes
                or pair.size < 0
                or self._intact[pair.base] is not None
                or self.limit <= self._log_begins  # begins again: nothing else looks at old notes
                or (not self.context.clean and number >= len(pairs) - _LAST_PAIRS)
            ):
                units = self.files.read_units(pair, 0, pair.count)
                units = units[: valid_units(units, pair.base, self.files.sizes.log)]
                notes = self.files.read_notes(pair, 0, len(units))
                pair.lacks_notes = not known_notes(units, notes).all()
        if self.lacks_notes:
            self._note_older()

    @property
    def lacks_notes(self) -> bool:
        """Whether the log must be compared with the messages before `run`."""
        return any(pair.lacks_notes for pair in self.queue.pairs)

    def run(self) -> int:
        """Repair and cut; return the offset from which on the log is needed, at most the limit."""
        pairs = self.queue.pairs
        for number, pair in enumerate(pairs):
            if pair not in self.queue.pairs:
                break  # an earlier pair was cut, and this one removed
            closely = number >= len(pairs) - _LAST_PAIRS
            self._repair(pair, self._intact[pair.base], closely=closely)
        self._cut_behind_limit()
        self._remove_empty_ones()
        if not self.context.clean:
            for pair in self.queue.pairs[-_LAST_PAIRS:]:
                # A killed writer may have left bytes or names unflushed.
                self.files.unflushed.written(pair)
            for directory in self.queue.places:
                if self.context.disk.exists(directory):
                    self.files.unflushed.named(directory)
        return max(self.needed, 0)

    def _need(self, physical_offset: int) -> None:
        """Have the log dispatched again from an offset; call it before anything is removed.

        A process that is killed after the removal leaves files that look complete.
        """
        self.needed = min(self.needed, physical_offset)
        self.context.lower_progress(self.needed)

    # ------------------------------------------------------------------ files

    def _drop_halves(self, pairs: list[Pair], halves: set[int]) -> None:
        """Remove files without a twin, and all later pairs, if the log still has their messages."""
        if not halves:
            return
        first = min(halves)
        behind = [pair for pair in pairs if pair.base > first]
        for pair in behind:
            self._look(pair)
        if self._has_lost_log or (self._log_begins > 0 and not self._is_in_log(behind)):
            path = f"{self.queue.places.log}/{first:020d}"
            raise CorruptFileError(
                path,
                0,
                "its file of records or its file of units is missing, and the log does not have "
                "these messages; put the file back, or remove the one that is left",
            )
        if any(self._was_complete(base) for base in (*halves, *(pair.base for pair in behind))):
            self._need(self._log_begins)
        for directory in self.queue.places:
            for base in sorted(bases_in(self.context.disk, directory), reverse=True):
                if base in halves or base > first:
                    self.context.disk.remove(f"{directory}/{base:020d}")
                    self.files.unflushed.named(directory)
        pairs[:] = [pair for pair in pairs if pair.base < first]
        logger.warning("removed files without their twins directory=%s", self.queue.places.log)

    def _was_complete(self, base: int) -> bool:
        """Return whether a pair existed below the log's present end; True if that is unknown."""
        if not self.context.disk.exists(Pair.at(self.queue.places, base).notes.path):
            return True
        first = int(self._first_note(base)["end_offset"])
        return UNKNOWN < first <= self.limit

    def _first_note(self, base: int) -> np.void:
        pair = Pair.at(self.queue.places, base)
        note: np.void = self.files.read_notes(pair, 0, 1)[0]
        self.files.pool.forget(pair.notes)
        return note

    def _drop_stray_notes(self, bases: set[int]) -> None:
        """Remove notes whose pair does not exist."""
        directory = self.queue.places.notes
        for base in sorted(bases_in(self.context.disk, directory).keys() - bases):
            if self._was_complete(base):
                self._need(self._log_begins)  # the pair itself was removed by hand
            self.context.disk.remove(Pair.at(self.queue.places, base).notes.path)
            self.files.unflushed.named(directory)

    def _check_bases(self, pairs: list[Pair]) -> None:
        """Refuse pairs whose positions would overlap."""
        for pair, following in itertools.pairwise(pairs):
            if following.base - pair.base < self.files.sizes.log:
                raise CorruptFileError(
                    following.log.path,
                    0,
                    f"the file before it begins at {pair.base} and has "
                    f"{self.files.sizes.log} bytes; remove what does not belong there",
                )

    def _is_in_log(self, pairs: list[Pair]) -> bool:
        """Return whether the log has all messages of some pairs."""
        ends = [self.files.read_notes(pair, 0, 1)["end_offset"][0] for pair in pairs]
        return all(end > self._log_begins for end in ends)

    @property
    def _log_begins(self) -> int:
        return self.context.log.min_physical_offset

    @property
    def _has_lost_log(self) -> bool:
        """Whether the log is empty, and not because of a crash."""
        return self.context.clean and self.context.log.max_physical_offset == self._log_begins

    def _give_sizes(self, pair: Pair) -> int | None:
        """Restore the size of files that were cut short or have grown.

        Returns:
            How many bytes of the file of records are original; None when all sizes were right.
        """
        pool, disk, intact = self.files.pool, self.context.disk, None
        if not disk.exists(pair.notes.path):
            self.files.make_directory(self.queue.places.notes)
            descriptor = disk.open(pair.notes.path, create=True)
            disk.truncate(descriptor, self.files.note_file_size)
            disk.close(descriptor)
            self.files.unflushed.named(self.queue.places.notes)
            self.files.unflushed.written(pair)
            logger.info("files without notes of ours file=%s", pair.log.path)
        for handle, size, item in zip(
            pair.handles, self.files.all_sizes, (1, UNIT_SIZE, NOTE_SIZE), strict=True
        ):
            with pool.descriptor(handle) as descriptor:
                found = disk.size(descriptor)
                if found != size:
                    logger.warning(
                        "file of another size file=%s size=%d expected=%d", handle.path, found, size
                    )
                    # A torn item must not look like a whole item that ends in zeros.
                    disk.truncate(descriptor, min(found - found % item, size))
                    disk.truncate(descriptor, size)
                    self.files.unflushed.written(pair)
                    intact = min(found, size) if handle is pair.log else intact or size
        return intact

    def _look(self, pair: Pair) -> None:
        try:
            look_into(self.files, pair)
        except CorruptFileError as error:
            logger.warning("unit without a record error=%s", error)
            pair.size = -1

    # ------------------------------------------------------------------ damage

    def _repair(self, pair: Pair, intact: int | None, *, closely: bool) -> None:
        """Check one pair, as closely as needed, and repair it.

        Args:
            pair: the pair.
            intact: as `_give_sizes` returned it.
            closely: whether it is one of the last pairs.
        """
        is_last = pair is self.queue.pairs[-1]
        is_plausible = intact is None and pair.size >= 0 and (pair.is_closed or is_last)
        if is_plausible and (self.context.clean or (not closely and self._has_marks(pair))):
            return
        notes = self.files.read_notes(pair, 0, self.files.sizes.unit_count_max + 1)
        # A pair that another one follows was full: without a message it is damaged.
        least = 0 if is_last else 1
        expected = max(pair.count, int((notes["end_offset"] != UNKNOWN).sum()), least)
        sound = self._sound_count(pair, self.files.sizes.log if intact is None else intact)
        if sound < expected:
            self._drop_behind(pair, sound, notes)
        elif is_last:
            self.files.cut(pair, sound)  # also clears what was half-written after it
        else:
            self.files.close(pair)

    def _has_marks(self, pair: Pair) -> bool:
        """Return whether a closed pair has its end marks."""
        unit = self.files.read_units(pair, pair.count, pair.count + 1)
        blank = self.files.pool.read(pair.log, BLANK_MIN_SIZE, pair.size)
        expected = SIZE_AND_MAGIC.pack(self.files.sizes.log - pair.size, BLANK_MAGIC)
        return unit.tobytes() == END_UNIT and blank == expected

    def _sound_count(self, pair: Pair, intact: int) -> int:
        """Return the number of units before the first that does not lead to its record.

        Args:
            pair: the pair.
            intact: bytes of the file of records after which nothing counts.
        """
        count = unit_count(self.files, pair)
        units = self.files.read_units(pair, 0, min(count, self.files.sizes.unit_count_max))
        count = valid_units(units, pair.base, self.files.sizes.log)
        units = units[:count]
        if count == 0:
            return 0
        end = int(units["position"][-1]) + int(units["size"][-1]) - pair.base
        with self.files.pool.descriptor(pair.log) as descriptor:
            # The whole file in memory, but one at a time, and only the last few.
            data = bytearray(min(end, intact))
            got = self.context.disk.read_into(descriptor, memoryview(data), 0)
        window = np.frombuffer(data, np.uint8)[:got]
        batch = Decoder(check_crc=True).decode(window, pair.base).batch
        found = min(len(batch), count)
        same = batch.physical_offset[:found] == units["position"][:found]
        same &= batch.size[:found] == units["size"][:found]
        same &= batch.queue_offset[:found] == units["queue_offset"][:found]
        # The last bytes of a record are properties, which never end in a zero byte: a record that
        # does was not written completely.
        same &= window[batch.start[:found] + batch.size[:found] - 1] != 0
        return found if same.all() else int(same.argmin())

    def _end_before(self, pair: Pair, count: int, notes: npt.NDArray[np.void]) -> int:
        """Return the physical offset after the message before message ``count`` of a pair."""
        if count:
            return int(notes["end_offset"][count - 1])
        at = self.queue.pairs.index(pair)
        return self.queue.pairs[at - 1].end_offset if at else UNKNOWN

    def _is_in_the_log(self, pair: Pair, count: int, notes: npt.NDArray[np.void]) -> bool:
        """Return whether the log has everything after the first ``count`` messages of a pair."""
        if self._has_lost_log:
            return False
        begins = self._log_begins
        before = self._end_before(pair, count, notes)
        return begins == 0 or before >= begins or int(notes["end_offset"][count]) > begins

    def _drop_behind(self, pair: Pair, count: int, notes: npt.NDArray[np.void]) -> None:
        """Cut damaged messages away, if the log still has them."""
        if not self._is_in_the_log(pair, count, notes):
            if pair.size < 0 or pair.count == 0:
                raise CorruptFileError(
                    pair.queue.path,
                    count * UNIT_SIZE,
                    "no unit that leads to a record, and the log begins after this message; "
                    "put the file back, or remove the queue's directories to begin again",
                )
            logger.warning("damaged records stay file=%s from=%d", pair.log.path, count)
            return
        logger.warning("cut damage file=%s messages_kept=%d", pair.log.path, count)
        before = self._end_before(pair, count, notes)
        self._need(max(before, self._log_begins))
        self.queue.cut(pair, count)

    # ------------------------------------------------------------------ the end

    def _cut_behind_limit(self) -> None:
        """Cut the messages that end above the limit in the log.

        If the log has others at their places, it was put back into an older state, or is another
        store's. Messages that were left out for these are taken out of the log again.
        """
        if self._is_of_another_log():
            logger.warning("compacted messages are of another log file=%s", self.queue.places.log)
            self._need(self._log_begins)
            self.limit = self._log_begins
        elif self._lost_to > self.context.log.max_physical_offset:
            self._keep_lost()
        for pair in reversed(self.queue.pairs):
            if pair.count == 0:
                continue
            notes = self.files.read_notes(pair, 0, pair.count)
            units = self.files.read_units(pair, 0, pair.count)
            known = notes["queue_offset"] == units["queue_offset"]
            behind = self._behind(known, units, notes)
            if len(behind):
                if self.context.clean:  # the log may have them: then their notes are damaged
                    ends = notes["end_offset"][: behind[0]][known[: behind[0]]]
                    before = ends[ends <= self.limit].max(initial=0)  # of notes that may be right
                    self._need(max(int(before), self._log_begins))
                self.queue.cut(pair, int(behind[0]))
            if len(behind) == 0 or behind[0] > 0:
                break

    def _behind(
        self,
        known: npt.NDArray[np.bool_],
        units: npt.NDArray[np.void],
        notes: npt.NDArray[np.void],
    ) -> npt.NDArray[np.intp]:
        """Return the rows of messages that end above the limit.

        The log has messages in their order. So a note is damaged that states an end above the limit
        before a message that ends below it, or for a message older than the log.
        """
        ends = notes["end_offset"]
        rows = np.flatnonzero(known & (ends > self.limit))
        if len(rows) and self.context.clean:
            below = np.flatnonzero(known & (ends > 0) & (ends <= self.limit))
            rows = rows[rows > below[-1]] if len(below) else rows
            oldest = self.context.log.store_timestamp_at(self._log_begins)
            if self._log_begins > 0 and oldest > 0:
                rows = rows[units["store_timestamp"][rows] >= oldest]
        return rows

    def _is_of_another_log(self) -> bool:
        """Return whether the log has another record where one of the last compacted ones stood.

        Or ends before it: only messages that are on disk are compacted. A damaged record proves
        nothing, nor does a lost one.
        """
        log, compacted = self.context.log, self.queue.checkpoint
        for pair in reversed(self.queue.pairs[-_LAST_PAIRS:]):
            notes = self.files.read_notes(pair, 0, pair.count)
            units = self.files.read_units(pair, 0, pair.count)
            wanted = units["queue_offset"] <= compacted
            wanted &= (notes["queue_offset"] == units["queue_offset"]) & (notes["end_offset"] > 0)
            for row in np.flatnonzero(wanted)[: -_LAST_RECORDS - 1 : -1].tolist():
                unit, end = units[row], int(notes["end_offset"][row])
                if end > log.max_physical_offset:
                    if end > self._lost_to:
                        return True
                    continue
                begin = end - int(unit["size"])
                view = log.read_message(begin) if begin >= self._log_begins else None
                if view is not None and not FILLER_TOPIC.startswith(view.topic):
                    found = view.queue_offset, view.store_timestamp
                    return found != (unit["queue_offset"], unit["store_timestamp"])
        return False

    @functools.cached_property
    def _lost_to(self) -> int:
        """Where the log ended at least before it lost its end; its end if it has lost nothing."""
        context = self.context
        recorded = None if context.recovery == "rocketmq" else context.recorded()
        end = context.log.max_physical_offset
        return end if recorded is None else max(recorded.physical_offset, end)

    def _keep_lost(self) -> None:
        """Keep messages of which the log has lost its copy, with its end.

        They count as older than the log: others get their places there. They stay in their order,
        so none before them is cut, and the log gives none of their queue offsets again.
        """
        end, is_kept = self.context.log.max_physical_offset, False
        for pair in self.queue.pairs:
            notes = self.files.read_notes(pair, 0, pair.count)
            units = self.files.read_units(pair, 0, pair.count)
            lost = notes["queue_offset"] == units["queue_offset"]
            lost &= (notes["end_offset"] > end) & (notes["end_offset"] <= self._lost_to)
            if lost.any():
                logger.warning("messages that the log lost are kept file=%s", pair.log.path)
                notes["end_offset"][lost] = OLDER
                self.queue.write_notes(pair, notes)
                is_kept = True
        if is_kept:
            self.limit = end
            queue = self.queue.topic, self.queue.queue_id
            self.context.queue_floors.keep({queue: self.queue.max_offset})
            # Before the progress falls, by which the messages are known to be of this log.
            self.files.unflushed.flush()

    def _remove_empty_ones(self) -> None:
        for pair in self.queue.pairs:
            if pair.count == 0:
                self.files.remove(pair)
        self.queue.pairs = tuple(pair for pair in self.queue.pairs if pair.count)

    def _note_older(self) -> None:
        """Write the missing notes of pairs that are older than all of the log."""
        begins = self._log_begins
        oldest = self.context.log.store_timestamp_at(begins)
        if begins <= 0 or oldest <= 0:
            return
        for pair in self.queue.pairs:
            if not pair.lacks_notes or pair.size < 0:
                continue
            units = self.files.read_units(pair, 0, pair.count)
            if int(units["store_timestamp"].max()) < oldest:
                notes = self.files.read_notes(pair, 0, pair.count)
                notes["end_offset"][~known_notes(units, notes)] = OLDER
                notes["queue_offset"] = units["queue_offset"]
                self.queue.write_notes(pair, notes)
                pair.lacks_notes = False

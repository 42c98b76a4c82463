"""Recover the index files: cut what lies above an offset, and repair what a crash left.

Items are appended in the order of the log, and each states the item that was in its slot before.
So cutting is undoing: from the newest item on, each slot gets its earlier item back.

After a crash that is not enough. Items below the plugin's progress are on disk, but slots are
written in place: a slot written after the last flush may be on disk or not. So the slots of the
last file are rebuilt in one walk along its items. Earlier files were full and on disk before
progress came so far; only their ends and borders are checked.

Source: RocketMQ ``IndexService#load``, which removes the file that was being written at the crash,
with all keys in it that are not dispatched again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from reput_index.batchkeys import KeysOfBatch, hash_of, keys_of_message, tag_key_of_message
from reput_index.files.filenames import name_of_time
from reput_index.files.hashchain import chain, seconds_between, slots_of
from reput_index.files.indexfile import IndexFile

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from reput.log import LogView
    from reput_index.files.indexfiles import IndexFiles

logger = logging.getLogger(__name__)


class RecoveryReport:
    """Repairs the files of one store before they are written."""

    def __init__(
        self, index: IndexFiles, log: LogView, lower_checkpoint: Callable[..., None]
    ) -> None:
        self._index = index
        self._log = log
        self._lower_checkpoint = lower_checkpoint

    def run(self, progress: int, *, clean: bool) -> int:
        """Cut and repair.

        Args:
            progress: physical offset below which the files are complete and on disk.
            clean: whether the last writer closed the store.

        Returns:
            The physical offset from which on messages are needed.
        """
        index, log = self._index, self._log
        if not clean:
            index.note_killed()
        self._give_size()
        # Damage first: a file must not be removed as an old one because its header is wrong.
        is_doubtful = self._drop_behind_damage(clean=clean) or not clean
        index.trim(log.min_physical_offset)
        if is_doubtful:
            progress = self._repair_last(progress)
            for file in index.files:
                # A killed writer may have left bytes or names unflushed.
                index.note_unflushed(file)
        else:
            self._lower(self._full_below(progress), progress)
            self.cut(progress)
        return progress if index.files else log.min_physical_offset

    # ------------------------------------------------------------------ damage

    def _give_size(self) -> None:
        """Restore the size of files that were cut short or have grown."""
        index = self._index
        for file in index.files:
            with index.pool.descriptor(file.path) as descriptor:
                size = index.disk.size(descriptor)
                least = index.geometry.file_size
                if index.grows and file is index.files[-1]:
                    least = index.geometry.position_of_item(max(file.header.next_item, 1))
                    if least <= size <= index.geometry.file_size:
                        continue
                if size != index.geometry.file_size:
                    logger.warning(
                        "file of another size file=%s size=%d expected=%d",
                        file.path,
                        size,
                        index.geometry.file_size,
                    )
                    index.disk.truncate(descriptor, least)
                    index.note_unflushed(file)

    def _drop_behind_damage(self, *, clean: bool) -> bool:
        """Remove the files after the first damaged one.

        A later step finds out how much of the damaged file is valid. After a crash it may be the
        file of the last flush, without the bytes written since.

        Returns:
            Whether there was a damaged file.
        """
        files = self._index.files
        for number, file in enumerate(files):
            # After a crash, whole files may be missing, or a broker may have added keys again.
            before = files[number - 1] if number else None
            if not clean and self._repeats_keys(before, file):
                reason, keep = "it has keys of the file before it", number
            elif not clean and self._misses_keys(before, file):
                reason, keep = "the keys before it are missing", number
            else:
                found = self._damage(file, is_last=number == len(files) - 1)
                if found is None:
                    continue
                reason, keep = found, number + 1
            log = logger.info if number == len(files) - 1 and not clean else logger.warning
            log("building again from file=%s reason=%s", file.path, reason)
            self._lower(number)
            for other in reversed(files[keep:]):
                self._index.remove(other)
            return True
        return False

    def _damage(self, file: IndexFile, *, is_last: bool) -> str | None:
        header, geometry = file.header, file.geometry
        if header.next_item <= 1:
            if not is_last or len(self._index.files) > 1:
                return "it holds nothing"
            return (
                "it holds items that its header does not count" if any(file.read_item(1)) else None
            )
        if header.next_item > geometry.item_count:
            return "its header counts more items than it has room for"
        if not is_last and not file.is_full:
            return "it is not full, and another one follows"
        if file.read_item(1)[1] != header.begin_physical_offset:
            return "its first item is not the one of its header"
        last = header.next_item - 1
        key_hash, physical_offset, seconds, previous = file.read_item(last)
        if physical_offset != header.end_physical_offset:
            return "its last item is not the one of its header"
        if last > 1 and seconds != seconds_between(header.begin_timestamp, header.end_timestamp):
            return "its last item is of another time than its header"
        slot = key_hash % geometry.slot_count
        if file.read_slot(slot) != last:
            return "its last item is not the newest one of its slot"
        if previous != 0:
            is_sound = (
                0 < previous < last and file.read_item(previous)[0] % geometry.slot_count == slot
            )
        else:  # rare in a file of more items than slots, and what a torn write leaves
            is_sound = not _has_slot(file, slot, last)
        return None if is_sound else "the chain of its last item is broken"

    def _repeats_keys(self, before: IndexFile | None, file: IndexFile) -> bool:
        """Return whether this file begins before the last record of the previous one."""
        if before is None or file.header.next_item <= 1 or not before.is_full:
            return False
        return file.read_item(1)[1] < before.header.end_physical_offset

    def _misses_keys(self, before: IndexFile | None, file: IndexFile) -> bool:
        """Return whether the log has keys between the previous file and this one."""
        if file.header.next_item <= 1:
            return False
        start, stop = self._log.min_physical_offset, file.read_item(1)[1]
        if before is not None:
            start = max(before.read_item(before.geometry.item_count - 1)[1] + 1, start)
        return self._first_key(start, min(stop, self._log.max_physical_offset)) is not None

    def _first_key(self, start: int, stop: int) -> int | None:
        """Return the physical offset of the first message with a key in ``[start, stop)``."""
        log = self._log
        if start >= stop:
            return None
        begin = log.min_physical_offset
        if start > begin:
            begin = start - 1  # the record that begins there is known
        keys_of = KeysOfBatch()  # not of tags, which have no items in files of some releases
        for batch in log.scan(begin, stop):
            fresh = batch.after(start)
            if len(fresh):
                keys = keys_of(fresh)
                if len(keys.hashes):
                    return int(keys.physical_offsets[0])
        return None

    # ------------------------------------------------------------------ cutting

    def _lower(self, count: int, physical_offset: int = 0) -> None:
        """Lower the checkpoint to the files that stay as they are, before later ones are changed.

        Args:
            count: number of files that stay, which are full.
            physical_offset: offset to which the next one is cut; 0 if it is removed.
        """
        index, files = self._index, self._index.files
        next_end = 0
        if count < len(files) and (last := files[count].stop_below(physical_offset) - 1) > 0:
            _, offset, seconds, _ = files[count].read_item(last)
            next_end = self._time_of(files[count], offset, seconds)
        time = index.safe_timestamp(self._log, files[:count], next_end)
        self._lower_checkpoint(index_timestamp=time)
        index.flushed_timestamp = files[count - 1].header.end_timestamp if count else 0

    def _full_below(self, physical_offset: int) -> int:
        """Return the number of the first files that are full and need not be cut."""
        for number, file in enumerate(self._index.files):
            if not file.is_full or file.header.end_physical_offset >= physical_offset:
                return number
        return len(self._index.files)

    def cut(self, physical_offset: int) -> None:
        """Undo all items of records at ``physical_offset`` or above."""
        index = self._index
        while index.files:
            file = index.files[-1]
            holds = file.header.next_item > 1
            if holds and file.read_item(1)[1] < physical_offset:
                self._cut_file(file, physical_offset)
                return
            if len(index.files) == 1 and self._stays_empty(file, physical_offset):
                if holds:
                    file.undo(1, 0)
                    index.note_unflushed(file)
                return
            index.remove(file)

    def _cut_file(self, file: IndexFile, physical_offset: int) -> None:
        stop = file.stop_below(physical_offset)
        if stop < file.header.next_item:
            last = file.read_item(stop - 1)
            file.undo(stop, self._time_of(file, last[1], last[2]))
            self._index.note_unflushed(file)

    def _time_of(self, file: IndexFile, physical_offset: int, seconds: int) -> int:
        timestamp = self._log.store_timestamp_at(physical_offset)
        return timestamp if timestamp >= 0 else file.header.begin_timestamp + seconds * 1_000

    def _stays_empty(self, file: IndexFile, physical_offset: int) -> bool:
        """Return whether a log that ends here has this empty file, made for a keyless message."""
        first = self._log.min_physical_offset
        if physical_offset <= first:
            return False
        return name_of_time(self._log.store_timestamp_at(first)) == file.name

    # ------------------------------------------------------------------ after a crash

    def _repair_last(self, progress: int) -> int:
        """Rebuild the last file's slots, and return the physical offset up to which it is right."""
        index = self._index
        while index.files:
            file = index.files[-1]
            self._lower(min(self._full_below(progress), len(index.files) - 1), progress)
            count, slots = _sound_items(file, progress)
            found = count
            while count:
                _, physical_offset, _, _ = file.read_item(count)
                if self._is_last_of_its_record(file, count, physical_offset):
                    if count != found:
                        _, slots = _sound_items(file, progress, count)
                    self._restore(file, count, slots)
                    # Its last message again: keys of it may be missing.
                    self.cut(physical_offset)
                    return min(physical_offset, progress) if index.files else 0
                count = file.stop_below_among(physical_offset, count) - 1
            # The file has no sound item, or is empty: it cannot tell whether keys are missing.
            index.remove(file)
        return self._log.min_physical_offset

    def _is_last_of_its_record(self, file: IndexFile, count: int, physical_offset: int) -> bool:
        """Return whether the items of the last record include its last keys."""
        log = self._log
        if physical_offset < log.min_physical_offset:
            return True  # the log cannot tell
        message = log.read_message(physical_offset)
        if message is None:
            return False
        topic = message.topic
        hashes = [hash_of(topic, key) for key in keys_of_message(message)]
        choices = [hashes]
        tag_key = tag_key_of_message(message)
        if tag_key is not None:  # which may have an item or not
            choices.append([*hashes, hash_of(topic, tag_key)])
        first = file.stop_below_among(physical_offset, count)
        found = file.read_items(first, count + 1 - first)["key_hash"].tolist()
        for expected in filter(None, choices):
            shorter = min(len(found), len(expected))
            if found[-shorter:] == expected[-shorter:]:
                return True
        return False

    def _restore(self, file: IndexFile, count: int, slots: npt.NDArray[np.int32]) -> None:
        first, last = file.read_item(1), file.read_item(count)
        begin = self._log.store_timestamp_at(first[1])
        header = file.header
        file.header = header._replace(
            begin_timestamp=begin if begin >= 0 else header.begin_timestamp,
            begin_physical_offset=first[1],
        )
        with self._index.lock:
            file.set_slots(slots)
            file.end_at(
                count + 1, self._time_of(file, last[1], last[2]), int(np.count_nonzero(slots))
            )
        self._index.note_unflushed(file)


def _has_slot(file: IndexFile, slot: int, stop: int) -> bool:
    """Return whether an item below ``stop`` belongs to the slot."""
    slot_count = np.int32(file.geometry.slot_count)
    for _, items in file.chunks(stop):
        if (items["key_hash"].astype(np.int32) % slot_count == slot).any():
            return True
    return False


def _sound_items(
    file: IndexFile, physical_offset: int, limit: int | None = None
) -> tuple[int, npt.NDArray[np.int32]]:
    """Return the number of valid items below ``physical_offset``, and the slots after them."""
    geometry = file.geometry
    slots = np.zeros(geometry.slot_count, np.int32)
    stop = geometry.item_count if limit is None else limit + 1
    newest = 0
    for first, items in file.chunks(stop):
        hashes = items["key_hash"].astype(np.int32)
        offsets = items["physical_offset"].astype(np.int64)
        numbers = np.arange(first, first + len(items), dtype=np.int32)
        good = (hashes >= 0) & (items["seconds"] >= 0) & (offsets < physical_offset)
        good &= offsets >= np.concatenate([[newest], offsets[:-1]])
        count = len(items) if good.all() else int(good.argmin())
        slot = slots_of(hashes[:count], geometry.slot_count)
        _, previous = chain(slots, slot, numbers[:count])
        same = previous == items["previous"][:count]
        if not same.all():
            # The wrong item is in the slots already: start again and stop before it.
            return _sound_items(file, physical_offset, first - 1 + int(same.argmin()))
        if count < len(items):
            return first - 1 + count, slots
        newest = int(offsets[-1])
    return stop - 1, slots

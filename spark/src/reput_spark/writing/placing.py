"""Gives staged files their places in a log whose lock is held: steps 2 to 8 of a publication."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import OWN_DIRECTORY, FilePool, MappedFileQueue
from reput.log import CloseRecord, LogEnd, LogReader
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput.store.abort import AbortFile
from reput_spark.writing.evidence import mark_of
from reput_spark.writing.intents import Intent, PublishedWrite, note_write
from reput_spark.writing.numbering import NumberTask, number, number_file
from reput_spark.writing.staging import forget, path_of
from reput_spark.writing.standing import Standing, log_directory

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_rebuild.engine import Engine

logger = logging.getLogger(__name__)

__all__ = ["Placing"]

_WINDOW_SIZE: Final = 1 << 20
_FILES_OPEN: Final = 4


@attrs.frozen(eq=False)
class Placing:
    """One look at a store whose lock is held, and what is done with it."""

    root: str
    place: Standing
    engine: Engine
    disk: Disk
    clock: Callable[[], int]
    """Now, in ms."""

    def put(
        self, intent: Intent, rest: Intent, told: Callable[[int], None] = lambda size: None
    ) -> Intent:
        """Bring files into the log; the intent, which says where each file of the write is.

        Args:
            intent: of the write.
            rest: the same with those files alone that are staged.
            told: called with the bytes of the files that are numbered.
        """
        directory, disk = path_of(self.root, intent.staging), self.disk
        tasks = number(
            rest.tasks,
            self.root,
            directory,
            self.place.next_base,
            self.place.next_offsets,
            intent.file_size,
            record_crc=intent.record_crc,
            disk=disk,
        )
        if not tasks:
            return intent
        self.engine.run(number_file, tasks, told)
        disk.flush_directory(directory)
        intent = _placed(intent, tasks, disk)
        intent.save(self.root, disk)
        self._begin()
        for task in tasks:
            self.place.files.add(task.base_offset, task.path)
        return intent

    def receipt(self, intent: Intent) -> PublishedWrite:
        """What is noted of a write all of whose files are in the log."""
        segments = intent.segments
        start = min((each.base_offset for each in segments), default=self.place.end_offset)
        ends = (each.base_offset + each.used_size for each in segments)
        count = sum(each.record_count for each in segments)
        end = max(ends, default=self.place.end_offset)
        return PublishedWrite(intent.name, count, start, end, self.clock())

    def conclude(self, intent: Intent, write: PublishedWrite) -> None:
        """Close the store, note the write, and clear up.

        All that it does again where it ended before, so whoever finds the intent may do it.
        """
        last = max(intent.segments, key=lambda each: each.base_offset, default=None)
        if last is not None and write.end_offset > self.place.end_offset:
            self._close(write.end_offset, last.base_offset + last.last_position)
        note_write(self.root, write, self.disk)
        Intent.remove(self.root, self.disk)
        forget(self.root, intent.staging, self.disk)
        logger.info(
            "published root=%s files=%d max_physical_offset=%d",
            self.root,
            len(intent.segments),
            write.end_offset,
        )

    # ------------------------------------------------------------------ opening and closing

    def _begin(self) -> None:
        """Open the store as a writer does, and close its last file."""
        own, disk = os.path.join(self.root, OWN_DIRECTORY), self.disk
        disk.make_directory(os.path.join(own, "progress"), durable=True)
        disk.make_directory(self.place.files.directory, durable=True)
        self._abort_file().create()
        CloseRecord.remove(self.root, disk)
        disk.flush_directory(own)
        if not self.place.files.bases:
            return
        if self.place.last_is_empty:
            # Its name is the next file's, and a blank at its start would be a file of no records.
            disk.remove(self.place.files.path(self.place.files.bases[-1]))
            disk.flush_directory(self.place.files.directory)
        else:
            self._end_last_file()

    def _end_last_file(self) -> None:
        files, disk = self.place.files, self.disk
        position = self.place.end_offset - files.bases[-1]
        descriptor = disk.open(files.path(files.bases[-1]), write=True)
        try:
            blank = SIZE_AND_MAGIC.pack(files.file_size - position, BLANK_MAGIC)
            disk.write(descriptor, blank, position)
            disk.flush(descriptor)
        finally:
            disk.close(descriptor)

    def _close(self, end: int, last_record: int) -> None:
        """Say where the log ends, and that nobody has written its queues yet."""
        pool = FilePool(self.disk, _FILES_OPEN)
        try:
            directory, file_size = log_directory(self.root), self.place.files.file_size
            files = MappedFileQueue(directory, file_size, self.disk, pool)
            files.load(writable=False)
            log = LogReader(files, _WINDOW_SIZE, end=LogEnd(end))
            CloseRecord.save(self.root, log, last_record, self.disk)
            # RocketMQ does not look for messages without queues in a store that was closed.
            self._abort_file().leave()
        finally:
            pool.close()

    def _abort_file(self) -> AbortFile:
        return AbortFile(os.path.join(self.root, "abort"), self.disk)


def _placed(intent: Intent, tasks: Sequence[NumberTask], disk: Disk) -> Intent:
    """The intent with the places of files that were numbered."""
    placed = {
        task.segment.name: attrs.evolve(
            task.segment, base_offset=task.base_offset, mark=mark_of(task.path, task.segment, disk)
        )
        for task in tasks
    }
    found = [
        attrs.evolve(each, segments=tuple(placed.get(own.name, own) for own in each.segments))
        for each in intent.tasks
    ]
    return attrs.evolve(intent, tasks=tuple(found))

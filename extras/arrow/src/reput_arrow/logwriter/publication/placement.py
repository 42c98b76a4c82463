"""Give staged files their places in a log whose lock is held: steps 2 to 8 of a publication."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from reput_arrow.logwriter.publication.filefate import mark_of
from reput_arrow.logwriter.publication.journal import Intent, PublishedWrite, note_write
from reput_arrow.logwriter.publication.publicationtarget import PublicationTarget
from reput_arrow.logwriter.staging.numbering import NumberTask, number, number_file
from reput_arrow.logwriter.stagingdirectories import forget, path_of

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_tools.offline import Engine

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class Placement:
    """Puts writes into one store whose lock is held."""

    root: str
    place: PublicationTarget
    engine: Engine
    disk: Disk
    clock: Callable[[], int]
    """Now, in ms."""

    def put(
        self, intent: Intent, rest: Intent, told: Callable[[int], None] = lambda size: None
    ) -> Intent:
        """Bring the staged files of a write into the log.

        Args:
            intent: of the write.
            rest: the same with those files alone that are staged.
            told: called with the bytes of the files that are numbered.

        Returns:
            The intent with the place of each file of the write.
        """
        directory, disk = path_of(self.root, intent.staging), self.disk
        tasks = number(
            rest.tasks,
            self.root,
            directory,
            self.place.closed.next_base_offset,
            self.place.next_offsets,
            intent.file_size,
            record_crc=intent.record_crc,
            grows=self.place.grows,
            disk=disk,
        )
        if not tasks:
            return intent
        self.engine.run(number_file, tasks, told)
        disk.flush_directory(directory)
        intent = _placed(intent, tasks, disk)
        intent.save(self.root, disk)
        self.place.closed.append_files([task.path for task in tasks])
        return intent

    def receipt(self, intent: Intent) -> PublishedWrite:
        """Return what is noted of a write all of whose files are in the log."""
        segments = intent.segments
        start = min((each.base_offset for each in segments), default=self.place.end_offset)
        ends = (each.base_offset + each.used_size for each in segments)
        count = sum(each.record_count for each in segments)
        end = max(ends, default=self.place.end_offset)
        return PublishedWrite(intent.name, count, start, end, self.clock())

    def conclude(self, intent: Intent, write: PublishedWrite) -> None:
        """Close the store, note the write, and clear up.

        Each step may be done twice, so that the next write that finds the intent may do it again.
        """
        last = max(intent.segments, key=lambda each: each.base_offset, default=None)
        if last is not None and write.end_offset > self.place.end_offset:
            self.place.closed.close_log(write.end_offset, last.base_offset + last.last_position)
        note_write(self.root, write, self.disk)
        Intent.remove(self.root, self.disk)
        forget(self.root, intent.staging, self.disk)
        logger.info(
            "published root=%s files=%d max_physical_offset=%d",
            self.root,
            len(intent.segments),
            write.end_offset,
        )


def _placed(intent: Intent, tasks: Sequence[NumberTask], disk: Disk) -> Intent:
    """Return the intent with the places of the files that were numbered."""
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

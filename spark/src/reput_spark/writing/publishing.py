"""Makes staged files the next ones of a store's log.

The order, with the store's lock held all the time, and why:

1. a write before this one that was cut short is finished, or taken back (below);
2. the files are numbered where they are, and flushed: no reader looks there;
3. the intent says which files are to go: from here on the write is finished by whoever comes next;
4. ``abort`` and no close record: whoever opens the store from here on looks for the log's end;
5. a blank closes the last file: without it, records in the next one would follow a gap;
6. the files get their names, one after the other, each name on disk before the next: a crash leaves
   a log that is shorter, and valid;
7. the close record, which says where the log ends now;
8. the list of writes, then the intent and the staging directory go.

An intent none of whose files has its name yet is taken back, so that a write that failed has
written nothing. Where the first ones have theirs, and somebody may have read them, the others
follow: numbered anew from where the log ends by then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.checkpoint import AbortFile
from reput.clock import system_clock
from reput.closerecord import CloseRecord
from reput.disk import Disk, FilePool
from reput.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput.logreader import CommitLogReader
from reput.manifest import OWN_DIRECTORY
from reput_spark.writing.intents import Intent, PublishedWrite, load_writes, note_write
from reput_spark.writing.numbering import NumberTask, number, number_file
from reput_spark.writing.staging import forget, path_of, sweep
from reput_spark.writing.standing import Standing, log_directory, standing

if TYPE_CHECKING:
    from reput.rebuild.engine import Engine

logger = logging.getLogger(__name__)

__all__ = ["Published", "publish", "take_back"]

_WINDOW_SIZE: Final = 1 << 20
_FILES_OPEN: Final = 4


@attrs.frozen
class Published:
    """What became of a write."""

    record_count: int
    file_count: int
    start_offset: int
    """Where its first file begins."""
    end_offset: int
    """Behind its last record."""
    was_there: bool = False
    """Whether a write of its name was published before, so that nothing was done."""
    finished: tuple[str, ...] = ()
    """Names of writes before this one that were cut short, and are published now."""
    taken_back: tuple[str, ...] = ()
    """Names of those of which nothing was published, nor will be."""


def publish(
    root: str,
    intent: Intent,
    engine: Engine,
    *,
    disk: Disk | None = None,
    clock: Callable[[], int] = system_clock,
    told: Callable[[int], None] = lambda size: None,
) -> Published:
    """Publish a write all of whose files are staged.

    Args:
        root: the store's directory.
        intent: of the write.
        engine: numbers the files, which all of its tasks must see under the same paths.
        disk: file operations; the system's when left out.
        clock: now, in ms.
        told: called with the bytes of the files that are numbered.

    Raises:
        SparkReputError: the store is open or damaged, or a task failed. Unless files have their
            names already, nothing of the write is in the log.
    """
    disk = disk or Disk()
    finished: list[str] = []
    taken_back: list[str] = []
    while True:
        with standing(root, intent.file_size, disk) as place:
            earlier = Intent.load(root, disk)
            if earlier is not None:
                _settle(root, earlier, place, engine, disk, clock, finished, taken_back)
                continue
            sweep(root, disk, keep={intent.staging})
            known = load_writes(root, disk).get(intent.name)
            if known is not None:
                forget(root, intent.staging, disk)
                write, file_count = known, 0
            else:
                file_count = sum(len(task.segments) for task in intent.tasks)
                write = _publish(root, intent, place, engine, disk, clock, told)
        return Published(
            write.record_count,
            file_count,
            write.start_offset,
            write.end_offset,
            known is not None,
            tuple(finished),
            tuple(taken_back),
        )


def take_back(root: str, staging: str, disk: Disk | None = None) -> bool:
    """Undo a write of which nothing has its name yet; whether nothing of it is left.

    What was published stays, and so does what is to follow it: the next write sees to that.
    """
    disk = disk or Disk()
    intent = Intent.load(root, disk)
    if intent is not None and intent.staging == staging:
        if len(_left(root, intent, disk)) < _file_count(intent):
            return False
        Intent.remove(root, disk)
    forget(root, staging, disk)
    return True


# --------------------------------------------------------------------------- writes cut short


def _file_count(intent: Intent) -> int:
    return sum(len(task.segments) for task in intent.tasks)


def _left(root: str, intent: Intent, disk: Disk) -> set[str]:
    """Names of the files of a write that are still staged."""
    directory = path_of(root, intent.staging)
    staged = {entry.name for entry in disk.list(directory)}
    return {each.name for task in intent.tasks for each in task.segments if each.name in staged}


def _settle(
    root: str,
    intent: Intent,
    place: Standing,
    engine: Engine,
    disk: Disk,
    clock: Callable[[], int],
    finished: list[str],
    taken_back: list[str],
) -> None:
    """Finish a write that was cut short, or take it back."""
    left = _left(root, intent, disk)
    if len(left) == _file_count(intent):
        logger.warning("took back a write that was cut short name=%s root=%s", intent.name, root)
        Intent.remove(root, disk)
        forget(root, intent.staging, disk)
        taken_back.append(intent.name)
        return
    logger.warning(
        "finishing a write that was cut short name=%s root=%s files=%d of=%d",
        intent.name,
        root,
        len(left),
        _file_count(intent),
    )
    tasks = []
    for task in intent.tasks:
        segments = tuple(each for each in task.segments if each.name in left)
        begun = task.begun or len(segments) < len(task.segments)
        if segments:
            tasks.append(attrs.evolve(task, segments=segments, begun=begun))
    # The intent stays as it is: of it, that is what is left.
    rest = attrs.evolve(intent, tasks=tuple(tasks))
    _publish(root, rest, place, engine, disk, clock, lambda size: None, is_noted=True)
    finished.append(intent.name)


# --------------------------------------------------------------------------- publishing


def _publish(
    root: str,
    intent: Intent,
    place: Standing,
    engine: Engine,
    disk: Disk,
    clock: Callable[[], int],
    told: Callable[[int], None],
    *,
    is_noted: bool = False,
) -> PublishedWrite:
    directory = path_of(root, intent.staging)
    base = place.next_base
    tasks = number(
        intent.tasks,
        directory,
        base,
        place.next_offsets,
        intent.file_size,
        record_crc=intent.record_crc,
        disk=disk,
    )
    end = place.end_offset
    if tasks:
        engine.run(number_file, tasks, told)
        disk.flush_directory(directory)
        if not is_noted:
            intent.save(root, disk)
        _begin(root, place, disk)
        for task in tasks:
            place.files.add(task.base_offset, task.path)
        end = _end(root, tasks, intent.file_size, disk)
    count = sum(task.record_count for task in intent.tasks)
    write = PublishedWrite(intent.name, count, base if tasks else end, end, clock())
    note_write(root, write, disk)
    Intent.remove(root, disk)
    forget(root, intent.staging, disk)
    return write


def _begin(root: str, place: Standing, disk: Disk) -> None:
    """Open the store as a writer does, and close its last file."""
    own = os.path.join(root, OWN_DIRECTORY)
    disk.make_directory(os.path.join(own, "progress"), durable=True)
    disk.make_directory(place.files.directory, durable=True)
    _abort_of(root, disk).create()
    CloseRecord.remove(root, disk)
    disk.flush_directory(own)
    if not place.files.bases:
        return
    last = place.files.bases[-1]
    path = place.files.path(last)
    if place.last_is_empty:
        # Its name is the next file's, and a blank at its beginning would be a file without records.
        disk.remove(path)
        disk.flush_directory(place.files.directory)
        return
    position = place.end_offset - last
    left = place.files.file_size - position
    descriptor = disk.open(path, write=True)
    try:
        disk.write(descriptor, SIZE_AND_MAGIC.pack(left, BLANK_MAGIC), position)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)


def _end(root: str, tasks: Sequence[NumberTask], file_size: int, disk: Disk) -> int:
    """Close the store: say where its log ends, and that nobody has written its queues yet."""
    last = tasks[-1]
    end = last.base_offset + last.segment.used_size
    pool = FilePool(disk, _FILES_OPEN)
    try:
        log = CommitLogReader(log_directory(root), file_size, disk, pool, _WINDOW_SIZE)
        log.files.load(writable=False)
        log.set_end(end)
        CloseRecord.save(root, log, last.base_offset + last.segment.last_position, disk)
        # RocketMQ does not look for messages without queues in a store that was closed.
        _abort_of(root, disk).leave()
    finally:
        pool.close()
    logger.info("published root=%s files=%d max_physical_offset=%d", root, len(tasks), end)
    return end


def _abort_of(root: str, disk: Disk) -> AbortFile:
    return AbortFile(os.path.join(root, "abort"), disk)

"""Replace the old pairs by compacted ones, safely against a crash at any step.

Names begin at 0 again with every compaction, so that a new file takes the name of an old one, and
no order of renames is safe by itself. Therefore a small file says what is going to happen before
the first name changes; while it exists, the new pairs count and the old ones do not, whichever
directory their files are in. After a crash the next writer that opens the queue does the rest; each
step may be repeated. All new files are on disk before the small file is.

The file ``replacing`` is JSON: the bases of the old pairs and of the new pairs, the checkpoint, and
the time of the oldest tombstone that stays.

Source: RocketMQ ``CompactionLog#replaceFiles``, which a crash leaves in a state that RocketMQ
refuses to load. `repair_others` finishes or undoes it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput.files import file_name
from reput_compaction.filepairs.offsetnotelayout import REPLACING, SPILL_PREFIX
from reput_compaction.layout import is_file_name

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_compaction.filepairs.queuenames import Places

logger = logging.getLogger(__name__)

_SIZE_MAX = 16 << 20
_DELETED = ".delete"
_BASE_MAX = (1 << 63) - 1


@attrs.frozen
class Replacement:
    """Pairs that take the place of other pairs."""

    old: tuple[int, ...]
    """Bases of the old pairs."""
    new: tuple[int, ...]
    """Bases of the new pairs, which are in the work area until they are renamed."""
    checkpoint: int
    """Queue offset of the last message that the compaction has seen."""
    tombstone: int | None = None
    """Store time of the oldest tombstone that stays, ms; None when there is none."""

    @staticmethod
    def path(places: Places) -> str:
        """Return the path of the file ``replacing``."""
        return f"{places.notes}/{REPLACING}"

    @classmethod
    def load(cls, disk: Disk, places: Places) -> Replacement | None:
        """Read the file; None when no replacement is going on.

        Raises:
            CorruptFileError: the file is not one that reput writes.
        """
        path = cls.path(places)
        try:
            data = disk.read_file(path, _SIZE_MAX)
        except FileNotFoundError:
            return None
        try:
            document = json.loads(data)
            old, new, checkpoint = document["old"], document["new"], document["checkpoint"]
            tombstone = document["tombstone"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptFileError(path, 0, f"no list of files to replace: {error}") from None
        numbers = [*old, *new] if isinstance(old, list) and isinstance(new, list) else [None]
        if any(type(each) is not int or not 0 <= each <= _BASE_MAX for each in numbers) or not (
            type(checkpoint) is int and -1 <= checkpoint <= _BASE_MAX
        ):
            raise CorruptFileError(path, 0, "old and new must be lists of positions")
        if tombstone is not None and type(tombstone) is not int:
            raise CorruptFileError(path, 0, "tombstone must be a time or null")
        return cls(tuple(old), tuple(new), checkpoint, tombstone)

    def save(self, disk: Disk, places: Places) -> None:
        """Write the file, durably: from here on the new pairs count."""
        disk.replace(self.path(places), json.dumps(attrs.asdict(self)).encode())

    def rename(self, disk: Disk, places: Places) -> None:
        """Give the new files their names, and remove the old files; may be repeated."""
        for work, place in zip(places.compacting, places, strict=True):
            for base in self.new:
                name = file_name(base)
                if disk.exists(f"{work}/{name}"):
                    disk.rename(f"{work}/{name}", f"{place}/{name}")
            for base in self.old:
                if base not in self.new:
                    with contextlib.suppress(FileNotFoundError):
                        disk.remove(f"{place}/{file_name(base)}")

    def forget(self, disk: Disk, places: Places) -> None:
        """Remove the file; only when all names and the checkpoint are on disk."""
        for place in places:
            disk.flush_directory(place)
        disk.remove(self.path(places))
        # At once: a later pair may get a name that this file, if it came back, would remove.
        disk.flush_directory(places.notes)


def clear_work_area(disk: Disk, places: Places) -> None:
    """Remove what an interrupted compaction has left."""
    for work in places.compacting:
        if not disk.exists(work):
            continue
        for entry in disk.list(work):
            if is_file_name(entry.name) or entry.name.startswith(SPILL_PREFIX):
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                    disk.remove(entry.path)
        try:
            disk.remove_directory(work)
        except OSError:  # a file of another program is there
            logger.warning("work area is not empty directory=%s", work)


def repair_others(disk: Disk, places: Places) -> None:
    """Finish or undo a replacement by RocketMQ that a crash has interrupted.

    RocketMQ renames the old logs to ``*.delete``, moves the new ones up, removes the old ones, and
    then does the same with the queues.
    """
    logs, queues = _Side.of(disk, places.log), _Side.of(disk, places.queue)
    if logs.deleted and logs.fresh:
        logs.undo(disk)
    elif logs.deleted:
        logs.finish(disk)
        queues.finish(disk)
    elif queues.deleted:
        queues.finish(disk)


@attrs.frozen
class _Side:
    """The state of one of the two directories."""

    directory: str
    work: str
    deleted: tuple[str, ...]
    """Names of old files, without the suffix that marks them."""
    fresh: tuple[str, ...]
    """Names of new files that were not moved yet."""

    @classmethod
    def of(cls, disk: Disk, directory: str) -> _Side:
        work = f"{directory}/compacting"
        names = [entry.name for entry in disk.list(directory)]
        marked = [name.removesuffix(_DELETED) for name in names if name.endswith(_DELETED)]
        fresh = [entry.name for entry in disk.list(work) if is_file_name(entry.name)]
        return cls(directory, work, tuple(filter(is_file_name, marked)), tuple(fresh))

    def undo(self, disk: Disk) -> None:
        for name in self.deleted:
            path = os.path.join(self.directory, name)
            disk.rename(f"{path}{_DELETED}", path)
        disk.flush_directory(self.directory)
        logger.warning("put old files back after a crash directory=%s", self.directory)

    def finish(self, disk: Disk) -> None:
        for name in self.fresh:
            disk.rename(f"{self.work}/{name}", f"{self.directory}/{name}")
        disk.flush_directory(self.directory)
        for name in self.deleted:
            disk.remove(f"{self.directory}/{name}{_DELETED}")
        disk.flush_directory(self.directory)
        logger.warning("moved new files after a crash directory=%s", self.directory)

"""Makes staged files the next ones of a store's log.

The order, with the store's lock held all the time, and why:

1. a write before this one that was cut short is finished, or taken back (below);
2. the files are numbered where they are, and flushed: no reader looks there;
3. the intent says which files are to go: from here on the next write finishes this one;
4. to 6. the files become the next ones of the log (`reput_tools.offline.ClosedStore.append_files`,
which
   says in which order, and why): a crash leaves a log that is shorter, and valid;
7. the note that the log is closed, and where it ends now (`close_log`);
8. the list of writes, then the intent and the staging directory go.

An intent none of whose files is in the log is taken back, so that a write that failed has written
nothing. Where its first files are there, and may have been read, its others follow, numbered again
from where the log ends by then. Where one of the others is gone, every write fails until a person
has looked at it.

After step 6 all is in the log, and nothing that fails there makes a write fail: its caller would
write it once more. The intent stays, and the next write does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError
from reput.files import Disk, system_clock
from reput_arrow.logwriter.publication.journal import Intent, PublishedWrite, load_writes
from reput_arrow.logwriter.publication.placement import Placement
from reput_arrow.logwriter.publication.publicationtarget import standing
from reput_arrow.logwriter.publication.recovery import settle
from reput_arrow.logwriter.publication.refusals import refuse_overwriting
from reput_arrow.logwriter.stagingdirectories import forget, sweep

if TYPE_CHECKING:
    from reput_tools.offline import Engine

logger = logging.getLogger(__name__)


@attrs.frozen
class Published:
    """What became of a write."""

    record_count: int
    file_count: int
    start_offset: int
    """Where its first file begins."""
    end_offset: int
    """After its last record."""
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
    overwrite: bool = False,
    small: bool = False,
    disk: Disk | None = None,
    follow_links: bool = False,
    clock: Callable[[], int] = system_clock,
    told: Callable[[int], None] = lambda size: None,
) -> Published:
    """Publish a write all of whose files are staged.

    Args:
        root: the store's directory.
        intent: of the write.
        engine: numbers the files, which all of its tasks must see under the same paths.
        overwrite: whether there must be no store yet.
        small: whether the files of a new store grow.
        disk: file operations; the system's when left out.
        follow_links: as for `reput.open`.
        clock: now, in ms.
        told: called with the bytes of the files that are numbered.

    Raises:
        CodedError: the store is open or damaged, it was made meanwhile, a write
            before this one cannot be finished, or a task failed. Unless files have their names
            already, nothing of the write is in the log.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    outer = disk or Disk()
    disk = outer.at(root, follow_links=follow_links)
    finished: list[str] = []
    taken_back: list[str] = []
    while True:
        if overwrite:
            refuse_overwriting(root, intent.name, disk)
        with standing(root, intent.file_size, disk, outer, small=small) as place:
            placing = Placement(root, place, engine, disk, clock)
            earlier = Intent.load(root, disk)
            if earlier is not None:
                (finished if settle(earlier, placing) else taken_back).append(earlier.name)
                continue
            sweep(root, disk, keep={intent.staging})
            known = load_writes(root, disk).get(intent.name)
            if known is not None:
                forget(root, intent.staging, disk)
            elif overwrite and not place.is_new:
                # It was vacant a moment ago; with the lock held, no other process can make a store.
                refuse_overwriting(root, intent.name, disk)
            write = known or _publish(intent, placing, told)
        return _published(write, intent, known, finished, taken_back)


def settle_earlier(
    root: str,
    engine: Engine,
    *,
    disk: Disk | None = None,
    follow_links: bool = False,
    clock: Callable[[], int] = system_clock,
) -> tuple[list[str], list[str]]:
    """Finish a write of whole files that was cut short, or take it back; see `publish`.

    Returns:
        Names of writes that were finished, and of writes that were taken back.

    Raises:
        CodedError: the store is open or damaged, or the write cannot be finished.
    """
    outer = disk or Disk()
    disk = outer.at(root, follow_links=follow_links)
    finished: list[str] = []
    taken_back: list[str] = []
    while (found := Intent.load(root, disk)) is not None:
        with standing(root, found.file_size, disk, outer) as place:
            earlier = Intent.load(root, disk)  # again, with the lock
            if earlier is not None:
                placing = Placement(root, place, engine, disk, clock)
                (finished if settle(earlier, placing) else taken_back).append(earlier.name)
    return finished, taken_back


def _publish(intent: Intent, placing: Placement, told: Callable[[int], None]) -> PublishedWrite:
    intent = placing.put(intent, intent, told)
    write = placing.receipt(intent)
    try:
        placing.conclude(intent, write)
    except (OSError, ReputError) as error:
        logger.warning(
            "published, not cleared up: the next write does it name=%s root=%s error=%s",
            intent.name,
            placing.root,
            error,
        )
    return write


def _published(
    write: PublishedWrite,
    intent: Intent,
    known: PublishedWrite | None,
    finished: list[str],
    taken_back: list[str],
) -> Published:
    return Published(
        record_count=write.record_count,
        file_count=0 if known is not None else len(intent.segments),
        start_offset=write.start_offset,
        end_offset=write.end_offset,
        was_there=known is not None,
        finished=tuple(finished),
        taken_back=tuple(taken_back),
    )

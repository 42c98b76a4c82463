"""Finish writes that were cut short, or take them back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs

from reput.errors import StoreLockedError, StoreNotFoundError
from reput.files import Disk
from reput_arrow.codederrors import CodedError
from reput_arrow.logwriter.publication.filefate import FileFate
from reput_arrow.logwriter.publication.journal import Intent
from reput_arrow.logwriter.stagingdirectories import forget
from reput_tools.offline import lock_store

if TYPE_CHECKING:
    from reput_arrow.logwriter.publication.placement import Placement

logger = logging.getLogger(__name__)


def settle(intent: Intent, placing: Placement) -> bool:
    """Finish a write that was cut short, or take it back where nothing of it is in the log.

    Returns:
        Whether it was finished.

    Raises:
        CodedError: part of it is in the log, and another part is nowhere.
    """
    root, disk = placing.root, placing.disk
    found = FileFate.of(root, intent, disk)
    if not found.published:
        logger.warning("took back a write that was cut short name=%s root=%s", intent.name, root)
        Intent.remove(root, disk)
        forget(root, intent.staging, disk)
        return False
    if found.gone:
        raise CodedError(
            "DATA_LOSS",
            f"{root}: write {intent.name} was cut short with {len(found.published)} of its files "
            f"in the log, and {len(found.gone)} of the files that were to follow are gone, "
            f"{found.gone[0]} first: put them back into reput/spark/{intent.staging}, or remove "
            f"{Intent.path(root)} to do without them; then write again",
        )
    logger.warning(
        "finishing a write that was cut short name=%s root=%s files=%d of=%d",
        intent.name,
        root,
        len(found.staged),
        len(intent.segments),
    )
    whole = placing.put(intent, _rest(intent, found))
    placing.conclude(whole, placing.receipt(whole))
    return True


def take_back(
    root: str, staging: str, disk: Disk | None = None, *, follow_links: bool = False
) -> bool:
    """Undo a write of which nothing is in the log.

    Published files stay, and so do the files that are to follow: the next write finishes it.

    Args:
        root: the store's directory.
        staging: name of the write's staging directory.
        disk: file operations; the system's when left out.
        follow_links: as for `reput.open`.

    Returns:
        Whether nothing of the write is left.
    """
    disk = (disk or Disk()).at(root, follow_links=follow_links)
    if _is_under_way(root, staging, disk):
        try:
            with lock_store(root, disk=disk):
                # Again, with the lock: another write may have settled it, and left an intent of
                # its own in that place.
                intent = Intent.load(root, disk)
                if intent is not None and intent.staging == staging:
                    if FileFate.of(root, intent, disk).published:
                        return False
                    Intent.remove(root, disk)
        except (StoreLockedError, StoreNotFoundError):
            return False  # another write is there, or comes next, and settles this one
    forget(root, staging, disk)
    return True


def _is_under_way(root: str, staging: str, disk: Disk) -> bool:
    intent = Intent.load(root, disk)
    return intent is not None and intent.staging == staging


def _rest(intent: Intent, found: FileFate) -> Intent:
    """Return the intent with those of its files alone that are staged."""
    tasks = []
    for task in intent.tasks:
        segments = tuple(each for each in task.segments if each.name in found.staged)
        begun = task.begun or len(segments) < len(task.segments)
        if segments:
            tasks.append(attrs.evolve(task, segments=segments, begun=begun))
    return attrs.evolve(intent, tasks=tuple(tasks))

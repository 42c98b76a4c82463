"""Where jobs write, until what they have made is complete."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.manifest import OWN_DIRECTORY

if TYPE_CHECKING:
    from reput.context import StoreContext
    from reput.disk import Disk

__all__ = ["staging_directory", "sweep"]

logger = logging.getLogger(__name__)

_STAGING = "compacting"


def staging_directory(context: StoreContext) -> str:
    """The directory below which each job of a store has one of its own.

    It is on the store's file system, so that renames move what was made.
    """
    return context.directory(OWN_DIRECTORY, _STAGING)


def sweep(context: StoreContext) -> None:
    """Remove what a job, or an earlier one that was killed, has left."""
    path = staging_directory(context)
    if not context.disk.exists(path):
        return
    try:
        _remove_tree(context.disk, path)
    except OSError as error:
        # An attempt on another machine may still be writing there. Nobody reads it, and an error
        # of the job itself must not be hidden by this one.
        logger.warning("left for the next job to remove directory=%s error=%s", path, error)


def _remove_tree(disk: Disk, path: str) -> None:
    """Remove a directory with everything in it; what a link leads to stays."""
    for entry in disk.list(path):
        if entry.is_dir(follow_symlinks=False):
            _remove_tree(disk, entry.path)
        else:
            disk.remove(entry.path)
    disk.remove_directory(path)

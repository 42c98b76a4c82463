"""Where jobs write, until what they have made is complete."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.errors import UnsafePathError
from reput.files import OWN_DIRECTORY

if TYPE_CHECKING:
    from reput.plugin import StoreContext

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
    try:
        context.disk.remove_tree(path)
    except UnsafePathError:
        raise
    except OSError as error:
        # An attempt on another machine may still be writing there. Nobody reads it, and an error
        # of the job itself must not be hidden by this one.
        logger.warning("left for the next job to remove directory=%s error=%s", path, error)

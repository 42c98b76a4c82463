"""The directory in which jobs write until their pairs are complete."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.errors import UnsafePathError
from reput.files import OWN_DIRECTORY

if TYPE_CHECKING:
    from reput.plugin import StoreContext

logger = logging.getLogger(__name__)

_STAGING = "compacting"


def staging_directory(context: StoreContext) -> str:
    """Return the directory in which each job of a store makes a directory of its own.

    It is on the store's file system, so that renames move the finished pairs.
    """
    return context.directory(OWN_DIRECTORY, _STAGING)


def sweep(context: StoreContext) -> None:
    """Remove what this job left, or an earlier job that was killed."""
    path = staging_directory(context)
    try:
        context.disk.remove_tree(path)
    except UnsafePathError:
        raise
    except OSError as error:
        # An attempt on another machine may still be writing there. No job reads it, and this error
        # must not hide an error of the job itself.
        logger.warning("left for the next job to remove directory=%s error=%s", path, error)

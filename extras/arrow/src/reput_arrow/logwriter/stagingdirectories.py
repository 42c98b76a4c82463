"""Directories in which writes keep files until they are published: ``<store>/reput/spark/write-…``.

Only writes look there. Each write has a directory of its own, made by its driver before the first
task begins: a task that does not find it is on a machine that sees another file system, or belongs
to a write that is over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from reput.files import OWN_DIRECTORY

if TYPE_CHECKING:
    from reput.files import Disk

logger = logging.getLogger(__name__)

INTENT: Final = "intent.json"
"""In a staging directory whose rows are being put."""
STALE_MS: Final = 24 * 3_600_000
"""A staging directory in which nothing was written for so long belongs to a write that died."""
_NAME: Final = re.compile(r"write-[0-9a-f]{32}")


def spark_directory(root: str) -> str:
    """Return the directory in which a store keeps the files of Spark."""
    return os.path.join(root, OWN_DIRECTORY, "spark")


def new_name() -> str:
    """Return a name for a staging directory that no other write has."""
    return f"write-{uuid.uuid4().hex}"


def is_name(name: str) -> bool:
    """Return whether ``name`` is one that `new_name` gives."""
    return _NAME.fullmatch(name) is not None


def path_of(root: str, name: str) -> str:
    """Return the path of the staging directory ``name``.

    Raises:
        ValueError: `new_name` gives no such name, which might lead elsewhere.
    """
    if not is_name(name):
        raise ValueError(f"{name!r} is not a name of a staging directory")
    return os.path.join(spark_directory(root), name)


def make(root: str, name: str, disk: Disk) -> str:
    """Make a staging directory in a store's directory, which is there, and return its path."""
    path = path_of(root, name)
    disk.make_directory(path, durable=True)
    return path


def is_vacant(root: str, disk: Disk) -> bool:
    """Return whether nothing is at ``root`` but what writes that died have left there."""
    within = [(root, {OWN_DIRECTORY}), (os.path.join(root, OWN_DIRECTORY), {"spark"})]
    for directory, allowed in within:
        if not {entry.name for entry in disk.list(directory)} <= allowed:
            return False
    found = disk.list(spark_directory(root))
    return all(is_name(entry.name) for entry in found)


def forget(root: str, name: str, disk: Disk, *, with_root: bool = False) -> None:
    """Remove a staging directory, and the directories above it that are empty then.

    Args:
        root: the store's directory.
        name: of the staging directory.
        disk: file operations.
        with_root: whether the store's directory goes, too, where nothing is in it.
    """
    _remove_all(path_of(root, name), disk)
    above = [spark_directory(root), os.path.join(root, OWN_DIRECTORY), *([root] * with_root)]
    for directory in above:
        if disk.list(directory):
            return
        with contextlib.suppress(OSError):  # not there, or another write began something in it
            disk.remove_directory(directory)


def _remove_all(directory: str, disk: Disk) -> None:
    """Remove a directory of files as far as that goes; a later sweep removes the rest.

    Another write may clear up, too; an attempt that Spark no longer waits for may make a file
    meanwhile, and a file that an attempt still has open keeps a name on NFS. None of that is an
    error. A link in the directory's place is removed, and nothing of what it leads to.
    """
    if disk.follows_links and _is_link(directory, disk):
        with contextlib.suppress(OSError):
            disk.remove(directory)
        return
    for entry in disk.list(directory):
        with contextlib.suppress(OSError):
            disk.remove(entry.path)
    with contextlib.suppress(OSError):
        disk.remove_directory(directory)


def sweep(
    root: str,
    disk: Disk,
    keep: set[str],
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Remove the staging directories of writes that died, but for those in ``keep``.

    Only the clock tells a write that died from one that is slow.

    Returns:
        Names of the directories.
    """
    oldest = clock() * 1_000 - STALE_MS
    swept = []
    for entry in disk.list(spark_directory(root)):
        if not is_name(entry.name) or entry.name in keep:
            continue
        if disk.exists(os.path.join(entry.path, INTENT)):
            continue  # part of it may be in the log: the next write from Spark finishes it
        with contextlib.suppress(FileNotFoundError):  # it ends at this moment
            newest = max(map(disk.modified_ms, [entry.path, *_files(entry.path, disk)]))
            if newest < oldest:
                _remove_all(entry.path, disk)
                logger.warning("swept what a write has left directory=%s", entry.path)
                swept.append(entry.name)
    return swept


def _files(directory: str, disk: Disk) -> list[str]:
    return [entry.path for entry in disk.list(directory) if not entry.is_symlink()]


def _is_link(path: str, disk: Disk) -> bool:
    directory, name = os.path.split(path)
    return any(entry.name == name and entry.is_symlink() for entry in disk.list(directory))

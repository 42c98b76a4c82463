"""Puts files that were built aside in the place of the old ones.

The order, and what a crash leaves behind each step:

1. the plugin's progress says that it has seen nothing: from here on the next opening derives its
   files anew from the log, whatever lies there, if it comes to that;
2. the old directories go aside, into the staging directory;
3. the new ones come in;
4. the progress says that they are complete: the rebuild counts.

Steps 2 and 3 are renames; nothing is copied. What is left in staging is swept by the next rebuild.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.dispatch.records.states import PluginRecords
from reput.files import OWN_DIRECTORY
from reput.log import Progress, ProgressFile, fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.files import Disk
    from reput.log import LogView

__all__ = ["publish", "staging_directory"]

_STAGING = "rebuild"
_OLD = "old"


def staging_directory(root: str) -> str:
    """Where a rebuild of that store writes; on the same file system, so that renames move it."""
    return os.path.join(root, OWN_DIRECTORY, _STAGING)


def publish(
    root: str,
    plugin: str,
    built: str,
    directories: Sequence[str],
    log: LogView,
    last_record_offset: int,
    disk: Disk,
) -> None:
    """Put one plugin's new directories in the place of its old ones.

    The store's lock is held, and the new files are on disk.

    Args:
        root: the store's directory.
        plugin: whose they are.
        built: where they were built; on the same file system.
        directories: names below the root, and below ``built``.
        log: the log that they were built from, to its end.
        last_record_offset: where its last record begins; -1 without one.
        disk: file operations.
    """
    file = ProgressFile(os.path.join(root, OWN_DIRECTORY, "progress", plugin), disk)
    disk.make_directory(os.path.dirname(file.path), durable=True)
    # Twice, for the file has two slots, and none of them may lead back to the old files.
    file.load()
    file.save(Progress(0, -1, 1))
    file.save(Progress(0))
    aside = os.path.join(staging_directory(root), _OLD, plugin)
    disk.make_directory(aside)
    for name in directories:
        if disk.exists(os.path.join(root, name)):
            disk.rename(os.path.join(root, name), os.path.join(aside, name))
    disk.flush_directory(root)
    for name in directories:
        if disk.exists(os.path.join(built, name)):
            disk.rename(os.path.join(built, name), os.path.join(root, name))
    disk.flush_directory(root)
    # What was remembered of the old files, a failed flush say, means nothing for the new ones.
    PluginRecords(root, disk).forget(plugin)
    end = log.max_physical_offset
    fingerprint = fingerprint_of(log, last_record_offset) if last_record_offset >= 0 else 0
    file.save(Progress(end, last_record_offset, fingerprint))

"""Keeps a directory from being taken for a store until everything in it is complete.

The store is made in ``repairing/`` below the directory, beside the file ``unfinished``, whose first
line says what to do. When it is complete, and on disk, the file says so; then the parts are renamed
into place, and the file is removed. A process that dies in between leaves a directory that reput
refuses, with that line, and that RocketMQ finds no log in.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.storefiles import UNFINISHED

if TYPE_CHECKING:
    from reput.files import Disk, Entry

__all__ = ["STAGING", "Mark", "publish", "read_mark", "remove", "start"]

STAGING: Final = "repairing"
_SIZE_MAX: Final = 65_536
_LAST: Final = "commitlog"
"""Without it a directory is no store, so it is moved last."""


@attrs.frozen(kw_only=True)
class Mark:
    """What the file ``unfinished`` says."""

    source: str
    """The damaged store."""
    target: str
    """Where the valid store is made."""
    backup: str = ""
    """Where the original bytes are, if the store is repaired in place."""
    is_complete: bool = False
    """Whether all is made, and only has to be renamed into place."""

    @property
    def advice(self) -> str:
        """What to do next, for people."""
        if self.backup:
            undo = shlex.join(["reput", "repair", self.source, "--undo", "--backup", self.backup])
            return f"a repair in place has not ended; put everything back with: {undo}"
        again = shlex.join(["reput", "repair", self.source, self.target])
        return f"a repair has not ended; do it again with: {again}"


def start(directory: str, disk: Disk, mark: Mark) -> None:
    """Write the mark; on disk when this returns."""
    text = f"{mark.advice}\n{json.dumps(attrs.asdict(mark))}\n"
    disk.replace(os.path.join(directory, UNFINISHED), text.encode())


def read_mark(directory: str, disk: Disk) -> Mark | None:
    """Return what the file says; None without one, or with one that a repair has not written."""
    path = os.path.join(directory, UNFINISHED)
    if not disk.exists(path):
        return None
    try:
        facts: Any = json.loads(disk.read_file(path, _SIZE_MAX).partition(b"\n")[2])
        mark = Mark(**facts)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (mark.source, mark.target, mark.backup)
    is_sound = all(type(text) is str for text in texts) and type(mark.is_complete) is bool
    return mark if is_sound else None


def remove(disk: Disk, entry: Entry) -> None:
    """Remove a file, a link, or a directory with everything in it."""
    if entry.is_dir(follow_symlinks=False):
        disk.remove_tree(entry.path)
    else:
        disk.remove(entry.path)


def publish(directory: str, disk: Disk) -> None:
    """Rename the parts of a complete store into place, and remove the mark.

    May be called again after it was interrupted.
    """
    staging = os.path.join(directory, STAGING)
    names = sorted((entry.name for entry in disk.list(staging)), key=lambda name: name == _LAST)
    for name in names:
        if name == _LAST:
            disk.flush_directory(directory)
        if name == "lock" and disk.exists(os.path.join(directory, name)):
            disk.remove(os.path.join(staging, name))
            continue
        disk.rename(os.path.join(staging, name), os.path.join(directory, name))
    disk.flush_directory(directory)
    disk.remove_tree(staging)
    disk.remove(os.path.join(directory, UNFINISHED))
    disk.flush_directory(directory)

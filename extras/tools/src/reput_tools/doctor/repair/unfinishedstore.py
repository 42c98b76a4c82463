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

from reput.errors import ReputError
from reput.files import Disk
from reput.storefiles import UNFINISHED

if TYPE_CHECKING:
    from reput.files import Entry

STAGING: Final = "repairing"
_SIZE_MAX: Final = 65_536
_LAST: Final = "commitlog"
"""Without it a directory is no store, so it is moved last."""


@attrs.define(eq=False, slots=False)
class NotEmptyError(ReputError):
    """The directory for the new store has other files in it."""

    path: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: there is {self.found!r}; name a new or an empty directory"


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
    command: str = "repair"
    """The command that makes the store."""

    @property
    def advice(self) -> str:
        """What to do next, for people."""
        if self.backup:
            undo = shlex.join(["reput", "repair", self.source, "--undo", "--backup", self.backup])
            return f"a repair in place has not ended; put everything back with: {undo}"
        again = shlex.join(["reput", self.command, self.source, self.target])
        return f"reput {self.command} has not ended; do it again with: {again}"


def check_empty(mark: Mark) -> None:
    """Refuse a directory for a new store in which something is that its command has not left.

    Raises:
        NotEmptyError: it has other files in it.
    """
    disk = Disk().at(mark.target)
    found = read_mark(mark.target, disk)
    wanted = (mark.command, mark.source, "")
    if found is not None and (found.command, found.source, found.backup) == wanted:
        return
    names = {entry.name for entry in disk.list(mark.target)} - {f"{UNFINISHED}.new"}
    if names:
        raise NotEmptyError(mark.target, min(names))


def begin(mark: Mark) -> tuple[Disk, str]:
    """Make the directory of a new store; return its disk, and where to make the store."""
    Disk().make_directory(mark.target, durable=True)
    disk = Disk().at(mark.target)
    start(mark.target, disk, mark)
    # What an earlier run has left, which may have published parts already.
    for entry in disk.list(mark.target):
        if entry.name != UNFINISHED:
            remove(disk, entry)
    staging = os.path.join(mark.target, STAGING)
    disk.make_directory(staging)
    return disk, staging


def end(mark: Mark, disk: Disk) -> None:
    """Make a complete store the one of its directory."""
    start(mark.target, disk, attrs.evolve(mark, is_complete=True))
    publish(mark.target, disk)


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
    texts = (mark.source, mark.target, mark.backup, mark.command)
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

"""Finds directories, pipes and devices in place of a store's files, and hides them from readers.

A failed restore or a wrong `mkdir` leaves them. No reader can open one, so a tool takes the file
for missing, and names what is in its place.
"""

from __future__ import annotations

import builtins
import errno
import os
from typing import TYPE_CHECKING, Final

from reput.files import OWN_DIRECTORY, Disk, Entry, is_system_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ABOVE: Final = frozenset({"checkpoint", "abort", "abort.bak", "lock", "timerwheel"})
_BELOW: Final = frozenset(
    {
        (OWN_DIRECTORY, "state"),
        ("config", "timercheck"),
        ("config", "timermetrics"),
        ("compaction", "position-checkpoint"),
        ("integrity", "origins"),
    }
)
_DOCUMENTS: Final = (".json", ".json.bak")
_NUMBER_SIZE_MIN: Final = 17
"""Digits of the shortest name that a file has by its time or its first byte."""
_DEPTHS: Final = {
    "index": 2,
    "timerlog": 2,
    "transaction": 2,
    "integrity": 3,
    "consumequeue": 4,
    "consumequeue_ext": 4,
    "batchconsumequeue": 4,
    "compaction": 5,
}
"""Names in the path of a numbered file: a topic, which may be a number, can be one of them.

Directories of others, and copies by hand, may have such names anywhere else.
"""


def misplaced(root: str, disk: Disk) -> tuple[str, ...]:
    """Return the paths in a store where something else is in place of a file, in order.

    Files of the log are not among them, nor are links.

    Args:
        root: the store's directory.
        disk: bound to it.
    """
    return tuple(sorted(_below(disk, root, ())))


def _below(disk: Disk, directory: str, above: tuple[str, ...]) -> Iterator[str]:
    for entry in disk.list(directory):
        name = entry.name
        if is_system_name(name) or entry.is_symlink():
            continue
        if not above and (name == "commitlog" or name.startswith("dledger-")):
            continue
        path = (*above, name)
        is_directory = entry.is_dir(follow_symlinks=False)
        if (is_directory or not entry.is_file(follow_symlinks=False)) and _is_of_file(path):
            yield entry.path
        elif is_directory:
            try:
                yield from _below(disk, entry.path, path)
            except PermissionError:
                continue


def _is_of_file(path: tuple[str, ...]) -> bool:
    """Whether a store has a file there, by the names of the path."""
    top, name, depth = path[0], path[-1], len(path)
    if depth == 1:
        return name in _ABOVE
    if path in _BELOW or (top == "config" and depth == 2 and name.endswith(_DOCUMENTS)):
        return True
    is_number = name.isdigit() and len(name) >= _NUMBER_SIZE_MIN
    if top == OWN_DIRECTORY:
        return path[1] == "compaction" and depth == 5 and (is_number or name == "tombstones")
    return is_number and depth == _DEPTHS.get(top)


class HidingDisk(Disk):
    """Shows some paths, with all below them, as missing."""

    def __init__(self) -> None:
        self._hidden: frozenset[str] = frozenset()

    @property
    def hidden(self) -> frozenset[str]:
        """The paths that are hidden."""
        return self._hidden

    def hide(self, paths: Collection[str]) -> None:
        """Hide ``paths`` from now on, and no others."""
        self._hidden = frozenset(paths)

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """See `Disk.open`."""
        if path in self._hidden and not create:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return super().open(path, write=write, create=create, fresh=fresh)

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        return path not in self._hidden and super().exists(path)

    def list_names(self, path: str) -> list[str]:
        """See `Disk.list_names`."""
        return [name for name in super().list_names(path) if f"{path}/{name}" not in self._hidden]

    def list(self, path: str) -> builtins.list[Entry]:
        """See `Disk.list`."""
        if not self._hidden:
            return super().list(path)
        if path in self._hidden:
            return []
        return [entry for entry in super().list(path) if entry.path not in self._hidden]

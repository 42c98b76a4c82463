"""Whether a writer may make a new store in a directory that exists."""

from __future__ import annotations

import os
from typing import Final

from reput.errors import EXPECTED, StoreNotFoundError
from reput.files.names import OWN_DIRECTORY
from reput.files.system.disk import Disk

__all__ = ["refuse_other_files"]

_OWN: Final = frozenset({"abort", "checkpoint", "config", "lock", OWN_DIRECTORY})
"""What a store may have before it has a log: what an opening leaves that was killed, and settings
of RocketMQ that were put there for a new store; each also while it is being replaced. Files derived
from a log are not among them: where these are, a log is missing."""
_OF_MOUNTS: Final = "lost+found"
_SHOWN: Final = 3


def refuse_other_files(root: str, disk: Disk) -> None:
    """Raise if ``root`` holds no log, and holds files that are not a new store's.

    Hidden names and ``lost+found`` do not count: version control, desktops and file systems put
    them into directories that people call empty.

    Args:
        root: the store's directory, absolute.
        disk: bound to it.

    Raises:
        StoreNotFoundError: there are such files; nothing was changed.
    """
    if not disk.exists(root) or disk.exists(os.path.join(root, "commitlog")):
        return
    names = [entry.name for entry in disk.list(root)]
    others = [name for name in names if not _is_ignored(name)]
    if others:
        more = ", …" if len(others) > _SHOWN else ""
        raise StoreNotFoundError(
            root,
            f"{EXPECTED}; no store is created here, as the directory holds other files "
            f"({', '.join(map(repr, others[:_SHOWN]))}{more}): name a new or an empty directory, "
            'or create the directory "commitlog" in this one first',
        )


def _is_ignored(name: str) -> bool:
    return name.removesuffix(".new") in _OWN or name == _OF_MOUNTS or name.startswith(".")

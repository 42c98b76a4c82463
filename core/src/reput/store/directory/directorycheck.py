"""Which directories are not opened as stores: those of other files, and unfinished stores.

A tool that makes a store step by step, as a repair does, puts the file ``unfinished`` beside the
parts. Until it is removed nothing opens the directory as a store: not as an empty one, and not as
half of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from reput.errors import EXPECTED, StoreNotFoundError
from reput.files.filenames import OWN_DIRECTORY, is_system_name
from reput.files.system.disk import Disk

__all__ = ["UNFINISHED", "refuse_other_files", "refuse_unfinished"]

UNFINISHED: Final = "unfinished"
"""Name of the file, below the directory. Its first line says what to do, for people."""
_SIZE_MAX: Final = 4096

_OWN: Final = frozenset({"abort", "checkpoint", "config", "lock", OWN_DIRECTORY})
"""What a store may have before it has a log: what an opening leaves that was killed, and settings
of RocketMQ that were put there for a new store; each also while it is being replaced. Files derived
from a log are not among them: where these are, a log is missing."""
_SHOWN: Final = 3


def refuse_other_files(root: str, names: Iterable[str]) -> None:
    """Raise if ``root``, which holds no log, holds files that are not a new store's.

    Names of `is_system_name` do not count: people call directories with such names empty.

    Args:
        root: the store's directory, absolute.
        names: the names in it.

    Raises:
        StoreNotFoundError: there are such files; nothing was changed.
    """
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
    return name.removesuffix(".new") in _OWN or is_system_name(name)


def refuse_unfinished(root: str, disk: Disk | None = None) -> None:
    """Raise if a tool has not finished the store at ``root``.

    Args:
        root: the directory, absolute.
        disk: bound to it; the system's when left out.

    Raises:
        StoreNotFoundError: with the file's first line.
    """
    path = os.path.join(root, UNFINISHED)
    disk = disk or Disk().at(root)
    try:
        text = disk.read_if_exists(path, _SIZE_MAX)
    except PermissionError as error:
        # The first file of a directory that is looked for; its name would lead astray.
        raise PermissionError(error.errno, error.strerror, root) from error
    if text is None:
        return
    reason = (
        text.decode("utf-8", "replace").partition("\n")[0]
        or "a tool has begun to make it, and has not finished"
    )
    raise StoreNotFoundError(root, f"the store is not finished: {reason}")

"""The file ``unfinished``: a directory in which a store is being made, or mended, by a tool.

A tool that makes a store step by step, as a repair does, puts this file beside the parts. Until it
is removed nothing opens the directory as a store: not as an empty one, and not as half of one.
"""

from __future__ import annotations

import os
from typing import Final

from reput.errors import StoreNotFoundError
from reput.files.system.disk import Disk

__all__ = ["UNFINISHED", "refuse_unfinished"]

UNFINISHED: Final = "unfinished"
"""Name of the file, below the directory. Its first line says what to do, for people."""

_SIZE_MAX: Final = 4096


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
    text = disk.read_if_exists(path, _SIZE_MAX)
    if text is None:
        return
    reason = (
        text.decode("utf-8", "replace").partition("\n")[0]
        or "a tool has begun to make it, and has not finished"
    )
    raise StoreNotFoundError(root, f"the store is not finished: {reason}")

"""Keeps the bytes of files that cannot be read, beside them, before others take their place."""

from __future__ import annotations

import logging
import os
from typing import Final

from reput.files import Disk

logger = logging.getLogger(__name__)

COPY_SUFFIX: Final = ".unreadable"
_COPIES_MAX: Final = 9


def keep_copy(disk: Disk, path: str, data: bytes) -> str:
    """Write the bytes of an unreadable file to a copy beside it, durably; return its path.

    The name is the file's with `COPY_SUFFIX`, and with a number if that name is taken. Bytes that
    were kept before are not kept again.

    Raises:
        OSError: the copy cannot be written, or there are too many.
    """
    for number in range(1, _COPIES_MAX + 1):
        copy = path + COPY_SUFFIX + (f"-{number}" if number > 1 else "")
        found = disk.read_if_exists(copy, len(data) + 1)
        if found == data:
            return copy
        if found is None:
            disk.replace(copy, data)
            logger.warning("a file that cannot be read was copied file=%s copy=%s", path, copy)
            return copy
    raise OSError(f"{path}: {_COPIES_MAX} unreadable versions of it were kept; remove old ones")


def copies_in(disk: Disk, directory: str, file_name: str) -> list[str]:
    """Return the names of copies that `keep_copy` has made of a file or its backup, sorted."""
    starts = (f"{file_name}{COPY_SUFFIX}", f"{file_name}.bak{COPY_SUFFIX}")
    names = (os.fsdecode(entry.name) for entry in disk.list(directory))
    return sorted(name for name in names if name.startswith(starts) and not name.endswith(".new"))

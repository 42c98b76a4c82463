"""Makes files of a fixed size under a temporary name, and renames them when they are complete.

A crash must not leave a file of a wrong size, which RocketMQ refuses to open. A new file is all
zeros by contract: decoding, recovery and `MappedFileQueue` take zeros for unwritten space.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from reput.files.system.parallelflush import heart

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["create_file", "create_temporary_file"]


def create_file(disk: Disk, path: str, size: int, *, aside: str = "") -> None:
    """Make a file of zeros, which takes no space yet. The caller flushes its bytes and its name.

    Args:
        disk: the store's.
        path: the file, in a directory that exists.
        size: bytes.
        aside: temporary path, in the same file system; next to ``path`` when left out.

    Raises:
        OSError: the file cannot be made. A full disk fails the later write that needs space.
    """
    aside = aside or f"{path}.new"
    create_temporary_file(disk, aside, size)
    disk.rename(aside, path)


def create_temporary_file(
    disk: Disk, path: str, size: int, *, reserve: int = 0, flush: bool = False
) -> None:
    """Make a temporary file of zeros, which the caller renames; remove it on failure.

    Args:
        disk: the store's.
        path: the temporary path; its directory is created if it does not exist. A file that a power
            cut left there is removed and never opened: it may also have its final name already.
        size: bytes.
        reserve: bytes from the start that get space at once, so that writing them cannot fail.
        flush: whether the file is on disk when this returns.
    """
    disk.make_directory(os.path.dirname(path))
    descriptor = disk.create_fresh(path)
    try:
        if reserve < size:
            disk.truncate(descriptor, size)
        if reserve:
            disk.allocate(descriptor, min(reserve, size))
        if flush:
            disk.flush(descriptor)
    except OSError:
        with contextlib.suppress(OSError):  # the next call removes it otherwise
            disk.remove(path)
        raise
    finally:
        disk.close(descriptor)
    heart.beat()  # a dispatch that makes ten thousand files does not hang

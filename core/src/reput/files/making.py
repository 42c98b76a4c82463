"""Makes a file of a fixed size elsewhere, and gives it its name when it is whole.

Made in place, a crash could leave one without its size, which RocketMQ refuses to open.

That a new file is all zeros is a contract: decoding, recovery and `MappedFileQueue` take zeros for
space that nobody has written.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from reput.files.heartbeat import beat

if TYPE_CHECKING:
    from reput.files.disk import Disk

__all__ = ["make_aside", "make_file"]


def make_file(disk: Disk, path: str, size: int, *, aside: str = "") -> None:
    """Make a file of zeros; its bytes and its name are for the caller to flush.

    It takes no space yet: a full disk is an error of the write that needs it, and ten thousand
    queues of three messages do not take sixty gigabytes.

    Args:
        disk: where.
        path: the file, in a directory that is there.
        size: bytes.
        aside: where it is made, in the same file system; beside ``path`` when left out.
    """
    aside = aside or f"{path}.new"
    make_aside(disk, aside, size)
    disk.rename(aside, path)


def make_aside(
    disk: Disk, path: str, size: int, *, reserve: bool = False, flush: bool = False
) -> None:
    """Make a file of zeros that gets its name later; nothing is left of it where that fails.

    Args:
        disk: where.
        path: the file; its directory is made. What a power cut left there is not opened: it may
            have been renamed already, and be another file under its other name.
        size: bytes.
        reserve: whether it gets its space at once, so that writing it cannot run out of it.
        flush: whether it is on disk when this returns.
    """
    disk.make_directory(os.path.dirname(path))
    descriptor = disk.create_fresh(path)
    try:
        if reserve:
            disk.allocate(descriptor, size)
        else:
            disk.truncate(descriptor, size)
        if flush:
            disk.flush(descriptor)
    except OSError:
        with contextlib.suppress(OSError):  # else the next one removes it
            disk.remove(path)
        raise
    finally:
        disk.close(descriptor)
    beat()  # a dispatch that makes a file for each of ten thousand queues does not hang

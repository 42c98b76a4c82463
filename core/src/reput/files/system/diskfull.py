"""Tell a disk that is full from a flush that failed.

A write on a full disk can be repeated when there is space: its caller has the bytes. A flush
cannot: the system may have dropped the pages that it could not write, and would report success for
another one. So a `FlushFailedError` is final, even if its number is that of a full disk.
"""

from __future__ import annotations

import errno
from typing import Final

from reput.errors import CreateMappedFileError

__all__ = ["FlushFailedError", "is_disk_full"]

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class FlushFailedError(OSError):
    """A flush failed: bytes that were written before it may be lost, and no retry can tell."""


def is_disk_full(error: BaseException) -> bool:
    """Whether what failed with ``error`` can be repeated when the disk has space again."""
    if isinstance(error, FlushFailedError):
        return False
    is_full = isinstance(error, OSError) and error.errno in _FULL
    return is_full or isinstance(error, CreateMappedFileError)

"""Copies of files that keep their holes: a second less for each GiB of them."""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any

_CHUNK = 1 << 20
_copyfile = shutil.copyfile


def keep_holes() -> None:
    """Let `shutil.copytree` and the other copies of `shutil` keep holes, in this process."""
    shutil.copyfile = _copy


def _copy(source: Any, target: Any, *, follow_symlinks: bool = True) -> Any:
    if not os.path.isfile(source) or (not follow_symlinks and os.path.islink(source)):
        return _copyfile(source, target, follow_symlinks=follow_symlinks)
    if os.path.exists(target) and os.path.samefile(source, target):
        raise shutil.SameFileError(f"{source!r} and {target!r} are the same file")
    with open(source, "rb") as read, open(target, "wb") as written:
        size, end = os.fstat(read.fileno()).st_size, 0
        while (start := _next_data(read.fileno(), end)) < size:
            end = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            read.seek(start)
            written.seek(start)
            while left := min(end - read.tell(), _CHUNK):
                written.write(read.read(left))
        written.truncate(size)
    return target


def _next_data(descriptor: int, position: int) -> int:
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.lseek(descriptor, 0, os.SEEK_END)  # only a hole follows

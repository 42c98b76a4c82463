"""Copies files: by sharing blocks where the file system can, else in the kernel; sparse stays so.

The copy is on disk when the caller has flushed it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reput.files import Disk

_CLONE_RANGE: Final = 0x4020940D  # FICLONERANGE of Linux: struct of four 64-bit numbers
_BLOCK: Final = 4096
_PIECE: Final = 64 << 20
_CHUNK: Final = 1 << 20

Told = Callable[[int], None]
"""Called with bytes copied since the call before."""


def copy_bytes(
    disk: Disk, source: int, target_disk: Disk, target: int, size: int, told: Told
) -> None:
    """Copy the first ``size`` bytes of an open file to an open, empty file.

    Sparse regions stay sparse; the target's size is set only by what is written.

    Args:
        disk: of the source.
        source: descriptor.
        target_disk: of the target.
        target: descriptor, open for writing.
        size: bytes.
        told: called with the progress.
    """
    size = min(size, disk.size(source))
    done = 0
    for start, end in disk.data_ranges(source, 0, size):
        if start > done:
            told(start - done)
        at = start
        while at < end:
            count = _copy_piece(disk, source, target_disk, target, at, min(end - at, _PIECE))
            if count == 0:
                break  # the file was cut meanwhile
            at += count
            told(count)
        done = end
    if done < size:
        told(size - done)


def _copy_piece(disk: Disk, source: int, target_disk: Disk, target: int, at: int, size: int) -> int:
    if at % _BLOCK == 0 and size % _BLOCK == 0 and _clone(source, target, at, size):
        return size
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):
            count = os.copy_file_range(source, target, size, at, at)
            if count:
                return count
    data = disk.read(source, min(size, _CHUNK), at)
    target_disk.write(target, data, at)
    return len(data)


def _clone(source: int, target: int, at: int, size: int) -> bool:
    """Share blocks between both files; False if the file system cannot."""
    request = b"".join(
        value.to_bytes(8, "little", signed=value < 0) for value in (source, at, size, at)
    )
    try:
        fcntl.ioctl(target, _CLONE_RANGE, request)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        return False
    return True


def copy_file(
    disk: Disk, source: str, target_disk: Disk, target: str, told: Told = lambda size: None
) -> None:
    """Copy a whole file; on disk when this returns, but for its name."""
    descriptor = disk.open(source)
    try:
        made = target_disk.create_fresh(target)
        try:
            size = disk.size(descriptor)
            copy_bytes(disk, descriptor, target_disk, made, size, told)
            target_disk.truncate(made, size)
            target_disk.flush(made)
        finally:
            target_disk.close(made)
    finally:
        disk.close(descriptor)


def copy_tree(
    disk: Disk,
    source: str,
    target_disk: Disk,
    target: str,
    *,
    wanted: Callable[[str, int], bool] = lambda path, size: True,
    told: Told = lambda size: None,
) -> list[str]:
    """Copy a file, or a directory with everything in it; on disk when this returns.

    Args:
        disk: of the source.
        source: file or directory.
        target_disk: of the target.
        target: path of the copy; existing files stay, unless a file is copied to them.
        wanted: given path and size of each file; False leaves the file out.
        told: called with the progress.

    Returns:
        Paths that are neither files nor directories, or cannot be read; they were left out.
    """
    left_out: list[str] = []
    directory, name = os.path.split(source)
    for entry in disk.list(directory):
        if entry.name == name:
            break
    else:
        return left_out
    follows = disk.follows_links
    if entry.is_dir(follow_symlinks=follows):
        try:
            entries = disk.list(source)
        except PermissionError:
            return [source]
        target_disk.make_directory(target)
        for below in entries:
            path = os.path.join(target, below.name)
            left_out += copy_tree(disk, below.path, target_disk, path, wanted=wanted, told=told)
        target_disk.flush_directory(target)
    elif not entry.is_file(follow_symlinks=follows):
        left_out.append(source)
    elif wanted(source, entry.stat(follow_symlinks=follows).st_size):
        try:
            copy_file(disk, source, target_disk, target, told)
        except PermissionError:
            left_out.append(source)
    return left_out


def tree_size(disk: Disk, path: str) -> int:
    """Return the bytes on disk of a file, or of everything in a directory."""
    try:
        about = disk.status(path)
        entries = disk.list(path) if about.st_mode & 0o170000 == 0o040000 else None
    except OSError:
        return 0
    if entries is None:
        return about.st_blocks * 512
    return sum(tree_size(disk, entry.path) for entry in entries)

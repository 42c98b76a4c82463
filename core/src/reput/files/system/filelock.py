"""Locks of a file's first byte, which belong to an open file and not to a process.

Source: Linux ``fcntl(2)``, open file description locks; ``struct flock`` of 64-bit systems.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Final

OPEN_FILE: Final = -1
"""Owner of a lock that belongs to an open file."""
_FLOCK: Final = struct.Struct("hhqqi")  # type, whence, start, len, pid
# Locks of open files if the system has them.
_SET_LOCK: Final[int] = getattr(fcntl, "F_OFD_SETLK", fcntl.F_SETLK)
_GET_LOCK: Final[int] = getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock the first byte for this open file.

    Args:
        descriptor: open to write, or, for a shared lock, to read.
        shared: whether others may have a shared lock, too; nobody else has the lock then.

    Returns:
        False if another open file, or another process, has the lock.

    Raises:
        OSError: the file system takes no locks.
    """
    try:
        try:
            _ask(descriptor, _SET_LOCK, fcntl.F_RDLCK if shared else fcntl.F_WRLCK)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The kernel or the file system may not support locks of open files.
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def lock_owner(descriptor: int) -> int | None:
    """Return the owner of the lock of the first byte; changes nothing.

    Returns:
        The process, 0 if it is in a container of its own, `OPEN_FILE` for an open file; None if the
        lock is free or the system does not know.
    """
    for command in dict.fromkeys((_GET_LOCK, fcntl.F_GETLK)):
        try:
            kind, pid = _ask(descriptor, command, fcntl.F_WRLCK)
        except (OSError, struct.error):
            continue
        return pid if kind != fcntl.F_UNLCK else None
    return None


def _ask(descriptor: int, command: int, wanted: int) -> tuple[int, int]:
    """Request or query the lock; return kind and process of the system's answer."""
    asked = _FLOCK.pack(wanted, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, command, asked)[: _FLOCK.size])
    return kind, pid

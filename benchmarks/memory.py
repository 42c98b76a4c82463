"""Memory that is there: what a measurement fills is not fetched from a host while it is measured.

A virtual machine hands memory that it has freed back to its host, often within seconds, and the
first touch of each page has the host find one again: 2 µs per KiB where this was measured, three
times what it takes to put a message of 1 KiB. A contender measured shortly after another had
freed as much, such as a warmed-up JVM, did not pay for that; all others did.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_BESIDE_BODY = 300
"""Bytes of a record beside the body, and of a queue's unit and two items of the index."""
_LEAST = 256 << 20
_PIECE = 1 << 20
_TOUCH = f"""
import mmap, os, sys, tempfile
size, piece = int(sys.argv[1]), b"1" * {_PIECE}
with tempfile.TemporaryFile(dir=sys.argv[2]) as file:
    os.posix_fallocate(file.fileno(), 0, size)
    with mmap.mmap(file.fileno(), size) as memory:
        for _ in range(size // {_PIECE}):
            memory.write(piece)
"""


def size_of(count: int, body_size: int) -> int:
    """Return the bytes that so many messages and what is derived of them take, about."""
    return count * (body_size + _BESIDE_BODY)


def claim(size: int, directory: Path) -> None:
    """Touch and free ``size`` bytes, and some more, but no more than half of what is free.

    As pages of a mapped file in ``directory``: a system gives pages out again in the order in which
    they came back, and anonymous or written ones come back in another. In a process
    of its own, since that of a case is judged by its peak memory.
    """
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return  # nobody knows how much would be safe
    size = min(size + _LEAST, free // 2) // _PIECE * _PIECE
    if size:
        command = [sys.executable, "-I", "-c", _TOUCH, str(size), os.fspath(directory)]
        subprocess.run(command, check=False)

"""Memory that is there: what a measurement fills is not fetched from a host while it is measured.

A virtual machine hands memory that it has freed back to its host, often within seconds, and the
first touch of each page has the host find one again: 2 µs per KiB where this was measured, three
times what it takes to put a message of 1 KiB. Who was measured shortly after something else had
freed as much, a JVM after it was warmed up, say, did not pay for that; all others did.
"""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["claim", "size_of"]

_BESIDE_BODY = 300
"""Bytes of a record beside the body, and of a queue's unit and two items of the index."""
_LEAST = 256 << 20
_TOUCH = """
import mmap, sys
size, piece = int(sys.argv[1]), b"\\1" * (1 << 20)
with mmap.mmap(-1, size) as memory:
    for _ in range(size >> 20):
        memory.write(piece)
"""


def size_of(count: int, body_size: int) -> int:
    """Return the bytes that so many messages and what is derived of them take, about."""
    return count * (body_size + _BESIDE_BODY)


def claim(size: int) -> None:
    """Touch and free ``size`` bytes, and some more, but no more than half of what is free.

    In a process of its own, since that of a case is judged by its peak memory.
    """
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return  # nobody knows how much would be safe
    size = min(size + _LEAST, free // 2) >> 20 << 20
    if size:
        subprocess.run([sys.executable, "-I", "-S", "-c", _TOUCH, str(size)], check=False)

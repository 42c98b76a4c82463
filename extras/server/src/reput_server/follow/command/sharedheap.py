"""`share_heap`: one heap for all threads of a process that follows."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
"""Option of glibc's ``mallopt``: how many heaps there may be."""


def share_heap() -> None:
    """Have threads that begin from now on use one heap.

    glibc gives threads heaps of their own, and each heap keeps megabytes of what its threads freed.
    Windows of the log and their columns are freed on several threads: a quarter of a follower's
    memory was such free space. A process without glibc is left as it is.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)

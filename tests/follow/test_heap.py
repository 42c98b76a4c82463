"""One heap for all threads: what one of them frees, the others use."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, sys, threading
from reput_server.follow.command.sharedheap import share_heap

libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    sys.exit(3)
if "share" in sys.argv:
    share_heap()
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
all_have, may_end = threading.Barrier(5), threading.Event()

def have_memory():
    libc.malloc(1_000)
    all_have.wait()
    may_end.wait()

threads = [threading.Thread(target=have_memory) for _ in range(4)]
for each in threads:
    each.start()
all_have.wait()
stream = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
may_end.set()
"""


def heaps(*options: str) -> int:
    command = [sys.executable, "-c", _PROGRAM, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("not glibc")
    assert done.returncode == 0, done.stderr
    return done.stdout.count("<heap nr=")


def test_threads_share_one_heap() -> None:
    assert heaps("share") == 1
    assert heaps() > 1

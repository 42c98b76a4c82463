"""Threads that have read keep no memory for the next time."""

from __future__ import annotations

import os
import subprocess
import sys

READERS = """
import resource, struct, sys, tempfile, threading
from reput.files.system.vectoredread import read_pieces

COUNT, SIZE = 64, 2 << 20
with tempfile.TemporaryFile() as file:
    file.write(bytes(SIZE))
    file.flush()
    places = struct.pack(">qi", 0, SIZE)
    have_read, end = threading.Barrier(COUNT + 1), threading.Event()

    def read():
        found = read_pieces(file.fileno(), 0, SIZE, places, 12, SIZE, 1, SIZE)
        assert [len(piece) for piece in found[0]] == [SIZE]
        del found
        have_read.wait()
        end.wait()

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    before = resident()
    threads = [threading.Thread(target=read) for _ in range(COUNT)]
    for thread in threads:
        thread.start()
    have_read.wait()
    print((resident() - before) >> 20)
    end.set()
    for thread in threads:
        thread.join()
"""


def test_idle_threads_keep_no_buffer_each():
    # AddressSanitizer keeps 256 MiB of freed memory to find whoever uses it: nearly all pieces.
    options = ":".join([os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=1"])
    environment = os.environ | {"ASAN_OPTIONS": options}

    command = [sys.executable, "-c", READERS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 64  # MiB, of 128 that one buffer for each of them takes

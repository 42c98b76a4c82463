"""Processes in a session of their own, with all that they start, to be killed together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def start(script, *arguments, log):
    """Start a Python script; what it says goes to the file ``log``."""
    with open(log, "ab") as said:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def processes_of(session):
    """Ids of the living processes of a session: workers have groups of their own."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(name))
    return found


def kill(process):
    """Kill a process that `start` has started and all that it started; return when they are gone.

    Returns:
        How many there were.
    """
    count = 0
    while alive := processes_of(process.pid):
        count = max(count, len(alive))
        for each in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.01)  # the system tells nobody when somebody else's child is gone
    process.wait()
    return count


def wait_until(happened, process, seconds=120):
    """Look again and again, as fast as possible: what is looked for is there for milliseconds."""
    give_up = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise AssertionError(f"it ended by itself, with {process.returncode}")
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.001)  # another process tells nobody of its files; bounded by the time above

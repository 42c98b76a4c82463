"""The processes that a case has started: their processor time and peak memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import psutil


def cpu_seconds() -> float:
    """Return the processor time of this process's descendants, ended ones included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for process in _alive():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it has ended meanwhile
        # Time of its own children is included once they have ended.
        total += times.user + times.system + times.children_user + times.children_system
    return total


def peak_memory() -> dict[str, int]:
    """Return, by name of the program, the summed peak memory of the living descendants, bytes."""
    found: dict[str, int] = {}
    for process in _alive():
        try:
            name = process.name()
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        except (psutil.Error, OSError):
            continue
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                name = "Python" if name.startswith("python") else name
                found[name] = found.get(name, 0) + int(line.split()[1]) * 1_024
    return found


def _alive() -> Iterator[psutil.Process]:
    yield from psutil.Process().children(recursive=True)

"""What the figures depend on: machine, versions, file system."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

_DISTRIBUTIONS = (
    "reput",
    "reput-consumequeue",
    "reput-native",
    "numpy",
    "zlib-ng",
    "lmdb",
    "diskcache",
    "persist-queue",
)


def describe(directory: Path) -> dict[str, Any]:
    """Return facts about this machine for the report; no names of hosts, users or paths."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory": _memory_size(),
        "file_system": file_system(directory),
        "versions": {**_versions(), "sqlite": sqlite3.sqlite_version},
    }


def headline(facts: dict[str, Any]) -> str:
    """Return the same facts in two lines."""
    memory = f", {facts['memory'] / 2**30:.0f} GiB of memory" if facts["memory"] else ""
    versions = " · ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['system']} {facts['machine']}, {facts['cores']} cores{memory}, "
        f"{facts['file_system']}, {facts['python']}\n{versions}"
    )


def load() -> list[float] | None:
    """Return the system's load averages over 1, 5 and 15 minutes; None where not known."""
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def file_system(directory: Path) -> str:
    """Return the type of the file system that holds ``directory``, as far as the system says."""
    path = os.path.realpath(directory)
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown file system"
    found = ("", "unknown file system")
    for line in lines:
        _, mount_point, kind, *_ = line.split(" ")
        longer = len(mount_point) >= len(found[0])
        if longer and os.path.commonpath([path, mount_point]) == mount_point:
            found = (mount_point, kind)
    return found[1]


def _memory_size() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _versions() -> dict[str, str]:
    versions = {}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return versions

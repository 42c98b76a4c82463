"""The store that ``reput demo`` works on: written by Apache RocketMQ, shipped with this package."""

from __future__ import annotations

import gzip
import json
import tarfile
from importlib import resources
from typing import Any

ORIGIN = "Apache RocketMQ 4.8.0 (Java)"

_STORE = "demo-store.tar.gz"
_EXPECTED = "demo-expected.jsonl.gz"


def unpack(directory: str) -> int:
    """Unpack the store into ``directory``, which becomes the store; return its size in bytes."""
    # Python before 3.11.4 has no filters; the archive is ours.
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    size = 0
    with _data(_STORE).open("rb") as file, tarfile.open(fileobj=file, mode="r:gz") as archive:
        for member in archive:
            _, _, member.name = member.name.partition("/")
            if member.name:
                archive.extract(member, directory, **options)
                size += member.size
    return size


def java_queues() -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return what Java listed: (physical offset, size) of each message, by topic and queue id."""
    queues = {}
    with _data(_EXPECTED).open("rb") as file, gzip.open(file, "rb") as lines:
        for line in lines:
            if b'"kind":"queue"' in line:
                row = json.loads(line)
                units = [(offset, size) for offset, size, _ in row["units"]]
                queues[row["topic"], row["queue_id"]] = units
    return queues


def _data(name: str) -> Any:
    return resources.files("reput_tools.cli") / "data" / name

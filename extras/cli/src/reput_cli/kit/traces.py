"""What the small files in a store's root tell: which program wrote it, and how it was left."""

from __future__ import annotations

import contextlib
import os
from typing import Any, NamedTuple

from reput.files import OWN_DIRECTORY, Disk, Entry
from reput.log import Checkpoint

__all__ = ["Traces", "traces_of"]

# Made by RocketMQ 5 and by no release before it.
_FIVE = ("abort.bak", "batchconsumequeue", "compaction", "timerlog", "timerwheel")


class Traces(NamedTuple):
    """Findings in the root of a store."""

    written_by: str
    """``"reput"``, ``"rocketmq"`` or ``"rocketmq 5"``."""
    abort: bool
    """Whether the file ``abort`` is there: a process writes, or did not close the store."""
    writer_pid: int | None
    """The process that ``abort`` names, while it lives."""
    checkpoint: Checkpoint | None
    sizes: dict[str, int]
    """Bytes that each part of the store takes on disk, by name."""

    def checkpoint_document(self) -> dict[str, Any] | None:
        """The checkpoint for ``--json``."""
        found = self.checkpoint
        if found is None:
            return None
        return {
            "log_timestamp": found.log_timestamp,
            "queues_timestamp": found.queues_timestamp,
            "index_timestamp": found.index_timestamp,
            "replica_offset": found.replica_offset,
            "confirm_offset": found.confirm_offset,
        }


def traces_of(root: str, disk: Disk) -> Traces:
    """Look into the root of a store; reads names, sizes and three small files."""
    entries = disk.list(root)
    names = {entry.name for entry in entries}
    checkpoint = None
    if "checkpoint" in names:
        with contextlib.suppress(OSError):  # the store's problems say why
            checkpoint = Checkpoint.load(os.path.join(root, "checkpoint"), disk)
    return Traces(
        written_by=_writer(root, names, checkpoint, disk),
        abort="abort" in names,
        writer_pid=_writer_pid(os.path.join(root, "abort"), disk) if "abort" in names else None,
        checkpoint=checkpoint,
        sizes={entry.name: size for entry in entries if (size := _size(entry, disk))},
    )


def _writer(root: str, names: set[str], checkpoint: Checkpoint | None, disk: Disk) -> str:
    if OWN_DIRECTORY in names:  # the manifest in it may be gone, or not readable
        return "reput"
    later = checkpoint is not None and (checkpoint.replica_offset or checkpoint.confirm_offset)
    return "rocketmq 5" if later or not names.isdisjoint(_FIVE) else "rocketmq"


def _writer_pid(path: str, disk: Disk) -> int | None:
    try:
        pid = int(disk.read_file(path, 32))
    except (ValueError, OSError):
        return None  # RocketMQ 4 writes no number
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass  # it lives, and is another user's
    except (OSError, OverflowError):
        return None
    return pid if pid > 0 else None


def _size(entry: Entry, disk: Disk) -> int:
    """Bytes on disk; files with holes, as RocketMQ's queues are, take less than their length."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return sum(_size(below, disk) for below in disk.list(entry.path))
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0  # gone since it was listed

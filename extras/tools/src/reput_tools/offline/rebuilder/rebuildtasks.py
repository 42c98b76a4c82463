"""The tasks of a rebuild: plain values, each done by one process, in any order.

An engine, with processes of this machine or Spark's executors, calls `run_task` and collects the
results. A task may be run twice, and an attempt may be stopped at any point: files written in parts
come out the same each time, and a plugin that is built in order gets a directory that no other
attempt uses.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import CorruptFileError, PluginError, ReputError, UnsafePathError
from reput_tools.offline.rebuilder.rebuildworker import Job, Worker

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_tools.offline.logsplits import Split


@attrs.define(eq=False, slots=False)
class TaskFailedError(ReputError):
    """A task that failed for a reason outside of the log: a full disk, or an error in a plugin."""

    task: str
    """The task, and the file it was reading."""
    reason: str

    def __str__(self) -> str:
        return f"{self.task}: {self.reason}"


@attrs.frozen
class ScanTask:
    """Read one split for the plugins that are built in parts."""

    split: Split
    plugins: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of the log that it stands for."""
        return self.split.size

    def __str__(self) -> str:
        split = self.split
        names = ", ".join(self.plugins)
        return f"split {split.number} [{split.start_offset}, {split.end_offset}) for {names}"


@attrs.frozen
class BuildTask:
    """Do one task of a plugin's plan."""

    plugin: str
    number: int
    task: Any
    size: int
    """Bytes of the log that it stands for: its share of a further pass."""

    def __str__(self) -> str:
        return f"task {self.number} of {self.plugin}"


@attrs.frozen
class OrderTask:
    """Dispatch the whole log to one plugin."""

    plugin: str
    size: int

    def __str__(self) -> str:
        return f"{self.plugin}, built in one piece"


@attrs.frozen
class Scanned:
    """The result of one split."""

    message_count: int
    results: Mapping[str, Any]
    """By plugin: the result of its scan, or why it cannot be built in parts."""


@attrs.frozen
class Ordered:
    """The result of a plugin that was built in one piece."""

    plugin: str
    message_count: int
    seconds: float
    directory: str
    """The directory of its files, at their paths below a store's root."""


def parts_directory(job: Job, plugin: str) -> str:
    """Return the directory of the files of a plugin that is built in parts."""
    return os.path.join(job.staging, plugin, "parts")


def run_task(
    job: Job,
    task: ScanTask | BuildTask | OrderTask,
    report: Callable[[int], None],
    disk: Disk | None = None,
) -> Any:
    """Do one task.

    Args:
        job: the job that the task is part of.
        task: the task.
        report: called now and then with the number of bytes of the log that are done.
        disk: file operations; the system's when left out.

    Raises:
        CorruptFileError: damage that is not recorded; the error names the file.
        PluginError: a plugin that cannot be built this way.
        UnsafePathError: a link; the error names it.
        TaskFailedError: any other error.
    """
    worker = Worker(job, disk)
    try:
        match task:
            case ScanTask():
                staging = {name: parts_directory(job, name) for name in task.plugins}
                return Scanned(*worker.scan(task.split, staging, report))
            case BuildTask():
                return worker.build(task.plugin, task.task, parts_directory(job, task.plugin))
            case OrderTask():
                return _in_order(worker, task, report)
    except (CorruptFileError, PluginError, UnsafePathError):
        raise
    except Exception as error:
        text = f"{task} of {worker.log.files.directory}"
        raise TaskFailedError(text, f"{type(error).__name__}: {error}") from error
    finally:
        worker.close()


def _in_order(worker: Worker, task: OrderTask, report: Callable[[int], None]) -> Ordered:
    started = time.monotonic()
    directory = os.path.join(worker.job.staging, task.plugin, uuid.uuid4().hex)
    worker.disk.make_directory(directory)
    count = worker.build_in_order(task.plugin, directory, report)
    return Ordered(task.plugin, count, time.monotonic() - started, directory)

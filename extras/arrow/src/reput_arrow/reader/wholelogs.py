"""Whole logs as tasks, for jobs that look at every message on many cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput.record import unwrapped_batch
from reput_arrow.logs.logopening import open_log
from reput_arrow.reader.readtasks import Task, plan_tasks
from reput_arrow.reader.selection import Selection
from reput_tools.offline import SPLIT_SIZE, read_split

if TYPE_CHECKING:
    from reput.record import Corruption, DispatchBatch

_TASKS_PER_PROCESS = 3  # so that a slow one at the end keeps one core waiting, not all
_SPLIT_MIN = 1 << 20


def plan(
    paths: str | Sequence[str],
    parallelism: int,
    split_size: int = SPLIT_SIZE,
    *,
    corrupt: str = "fail",
) -> list[Task]:
    """Plan the splits of the logs that paths lead to, smaller ones where there would be too few.

    Args:
        paths: as for reading.
        parallelism: tasks that run at once.
        split_size: bytes of a split, about.
        corrupt: ``"skip"``: split between files only. A split that does not end where the next one
            begins is damage, or shows a false border; a read past damage cannot tell which.

    Raises:
        StoreNotFoundError: no log at a path.
        CorruptFileError: a log that cannot be read.
    """
    wanted = (paths,) if isinstance(paths, str) else tuple(paths)
    selection = Selection(paths=wanted, split_size=split_size, corrupt=corrupt)
    return plan_selection(selection, parallelism)


def plan_selection(selection: Selection, parallelism: int) -> list[Task]:
    """Plan the splits of a read, smaller ones where there would be too few; see `plan`."""
    # A split is all that a job is given of a task.
    selection = attrs.evolve(selection, prunes=False)
    tasks = plan_tasks(selection)
    even = sum(task.size for task in tasks) // (parallelism * _TASKS_PER_PROCESS)
    size = selection.split_size
    if size is not None and selection.corrupt == "fail" and _SPLIT_MIN <= even < size:
        tasks = plan_tasks(attrs.evolve(selection, split_size=even))
    return tasks


def batches_of(
    task: Task,
    report: Callable[[int], None],
    selection: Selection,
    tell: Callable[[Corruption], None] = lambda finding: None,
) -> Iterator[DispatchBatch]:
    """Read the batches of one split that have rows; each is valid until the next one is taken.

    The messages of an inner batch are rows of their own.

    Args:
        task: what to read.
        report: told the bytes that are read.
        selection: says whether damage fails or is skipped, and whether bodies are compared with
            their checksums; its other fields are not looked at.
        tell: called with what is left out.

    Raises:
        CorruptFileError: damage, and it is not to be left out.
    """
    split = task.split
    with open_log(task.place, task.log_end) as log:
        if selection.corrupt == "skip":
            scan = log.scan(split.start_offset, split.end_offset, check_crc=selection.check_crc)
        else:
            scan = read_split(log, split, check_crc=selection.check_crc)
        try:
            for batch in scan:
                if len(batch):
                    yield unwrapped_batch(batch)
                if batch.finding is not None:
                    tell(batch.finding)
                report(batch.end_offset - split.start_offset)
        except CorruptFileError as error:
            raise CorruptFileError(
                error.path,
                error.position,
                f"{error.reason} ({task}). corrupt=skip leaves out what is damaged",
            ) from error

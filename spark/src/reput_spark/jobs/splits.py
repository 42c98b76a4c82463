"""Splits of logs as tasks, for jobs that read logs and write none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reput.errors import CorruptFileError
from reput.log import SPLIT_SIZE, read_split
from reput_spark.errors import SparkReputError
from reput_spark.logs.opening import open_log
from reput_spark.reading.options import ReadOptions
from reput_spark.reading.tasks import Task, plan_tasks

if TYPE_CHECKING:
    from reput.record import Corruption, DispatchBatch

__all__ = ["batches_of", "plan"]

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
        SparkReputError: no log at a path, or one that cannot be read.
    """
    wanted = (paths,) if isinstance(paths, str) else tuple(paths)
    tasks = _plan(wanted, split_size, corrupt)
    even = sum(task.size for task in tasks) // (parallelism * _TASKS_PER_PROCESS)
    if corrupt == "fail" and _SPLIT_MIN <= even < split_size:
        tasks = _plan(wanted, even, corrupt)
    return tasks


def _plan(paths: tuple[str, ...], split_size: int, corrupt: str) -> list[Task]:
    return plan_tasks(ReadOptions(paths=paths, split_size=split_size, corrupt=corrupt))


def batches_of(
    task: Task,
    report: Callable[[int], None],
    corrupt: str = "fail",
    tell: Callable[[Corruption], None] = lambda finding: None,
) -> Iterator[DispatchBatch]:
    """Read the batches of one split that have rows; each is valid until the next one is taken.

    Args:
        task: what to read.
        report: told the bytes that are read.
        corrupt: ``"fail"``, or ``"skip"`` to leave out what is damaged.
        tell: called with what is left out.

    Raises:
        SparkReputError: damage, and it is not to be left out.
    """
    split = task.split
    with open_log(task.place, task.log_end) as log:
        scan = read_split(log, split)
        if corrupt == "skip":
            scan = log.scan(split.start_offset, split.end_offset)
        try:
            for batch in scan:
                if len(batch):
                    yield batch
                if batch.finding is not None:
                    tell(batch.finding)
                report(batch.end_offset - split.start_offset)
        except CorruptFileError as error:
            raise SparkReputError(
                "DAMAGED", f"{task}: {error}. corrupt=skip leaves out what is damaged"
            ) from error

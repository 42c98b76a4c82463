"""Splits of logs as tasks, with errors that Spark can pass on; see `reput_arrow.reading.whole`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reput.log import SPLIT_SIZE
from reput_arrow.reading import whole
from reput_spark.errors import reading_with_code

if TYPE_CHECKING:
    from reput.record import Corruption, DispatchBatch
    from reput_arrow.reading.tasks import Task

__all__ = ["batches_of", "plan"]


def plan(
    paths: str | Sequence[str],
    parallelism: int,
    split_size: int = SPLIT_SIZE,
    *,
    corrupt: str = "fail",
) -> list[Task]:
    """Plan the splits of the logs that paths lead to, smaller ones where there would be too few.

    Raises:
        SparkReputError: no log at a path, or one that cannot be read.
    """
    with reading_with_code():
        return whole.plan(paths, parallelism, split_size, corrupt=corrupt)


def batches_of(
    task: Task,
    report: Callable[[int], None],
    corrupt: str = "fail",
    tell: Callable[[Corruption], None] = lambda finding: None,
) -> Iterator[DispatchBatch]:
    """Read the batches of one split that have rows; each is valid until the next one is taken.

    Raises:
        SparkReputError: damage, and it is not to be left out.
    """
    with reading_with_code():
        yield from whole.batches_of(task, report, corrupt, tell)

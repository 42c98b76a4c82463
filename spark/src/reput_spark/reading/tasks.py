"""Reads of logs as `reput_arrow` does them, with errors that Spark can pass on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reput_arrow.reading import tasks
from reput_spark.errors import reading_with_code

if TYPE_CHECKING:
    import pyarrow as pa

    from reput_arrow.logs.place import LogPlace
    from reput_arrow.reading.tasks import Task
    from reput_spark.reading.options import ReadOptions

__all__ = ["find_logs", "plan_tasks", "read_task"]


def find_logs(paths: tuple[str, ...] | list[str]) -> list[LogPlace]:
    """Return the logs that paths lead to; see `reput_arrow.logs.finding`.

    Raises:
        SparkReputError: nothing there, or no log.
    """
    from reput_arrow.logs import finding

    with reading_with_code():
        return finding.find_logs(paths)


def plan_tasks(options: ReadOptions) -> list[Task]:
    """Plan the tasks of a read, in the order of the logs and of their bytes.

    Raises:
        SparkReputError: no log at a path, or one that cannot be read.
    """
    with reading_with_code():
        return tasks.plan_tasks(options)


def read_task(task: Task, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task.

    Raises:
        SparkReputError: damage, and the option ``corrupt`` is ``"fail"``.
    """
    with reading_with_code():
        yield from tasks.read_task(task, options, schema)

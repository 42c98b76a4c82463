"""Reads of logs as `reput_arrow` does them, with errors that Spark can pass on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reput_arrow.reader import readtasks
from reput_spark.errors import reading_with_code

if TYPE_CHECKING:
    import pyarrow as pa

    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.reader.readtasks import Task
    from reput_spark.reader.options import ReadOptions


def find_logs(paths: tuple[str, ...] | list[str]) -> list[LogPlace]:
    """Return the logs that paths lead to; see `reput_arrow.logs.discovery`.

    Raises:
        SparkReputError: nothing there, or no log.
    """
    from reput_arrow.logs import discovery

    with reading_with_code():
        return discovery.find_logs(paths)


def plan_tasks(options: ReadOptions) -> list[Task]:
    """Plan the tasks of a read, in the order of the logs and of their bytes.

    Raises:
        SparkReputError: no log at a path, or one that cannot be read.
    """
    with reading_with_code():
        return readtasks.plan_tasks(options)


def read_task(task: Task, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task.

    Raises:
        SparkReputError: damage, and the option ``corrupt`` is ``"fail"``.
    """
    with reading_with_code():
        yield from readtasks.read_task(task, options, schema)

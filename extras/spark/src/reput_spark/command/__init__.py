"""``reput spark``: the jobs of reput-spark from the command line, a module for each command.

It parses, calls a job and prints; it must not know how a job does its work.
"""

from __future__ import annotations

import click

from reput_spark.command.demo import demo
from reput_spark.command.export import export
from reput_spark.command.import_ import import_
from reput_spark.command.rebuild import rebuild
from reput_spark.command.stats import stats
from reput_spark.command.verify import verify

__all__ = ["spark"]


@click.group(short_help="Rebuild, verify, export and count on Apache Spark.")
def spark() -> None:
    """Jobs that read whole logs, on Apache Spark.

    On one machine you do not need Spark: use `reput rebuild`, `verify`, `report` or `export`.
    """


for _command in (rebuild, verify, export, import_, stats, demo):
    spark.add_command(_command)

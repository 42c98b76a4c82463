"""``reput spark demo``: the store of ``reput demo`` on Apache Spark."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from reput_spark.command.engines import spark_at
from reput_spark.command.options import master_option
from reput_tools.cli.kit import ExitCode, json_option, with_debug

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput_tools.cli.kit import ProgressBar
    from reput_tools.offline import Rebuilt

_PLUGINS = ("consumequeue", "index")
_TOP = 5


@click.command(short_help="Read, rebuild and count a RocketMQ store on Spark.")
@master_option
@json_option("one document at the end")
@with_debug
def demo(master: str, as_json: bool) -> None:
    """Read, rebuild and count a store that Apache RocketMQ wrote, on Apache Spark.

    The command unpacks the store and builds its key index as in a running store. It reads the log
    as a DataFrame, rebuilds index and queues on Spark, and compares each byte, also with the queues
    that RocketMQ wrote. The exit code is 1 if a byte differs. The command keeps no files. Spark
    workers must see this machine's temporary directory.
    """
    from reput_tools.cli.kit import ProgressBar

    with tempfile.TemporaryDirectory(prefix="reput-demo-") as directory:
        root = os.path.join(directory, "store")
        put_count = _make_store(root)
        click.echo("Starting Apache Spark, which takes some ten seconds", err=True)
        with spark_at(master, quick=True) as spark, ProgressBar("on Spark", 3) as progress:
            found = {"put_count": put_count, **_run(spark, root, progress)}
    built, topics = found.pop("built"), found.pop("topics")
    right = not any(each.differences for each in built) and found["row_count"] == found["put_count"]
    if as_json:
        _print_json(found, built, topics, right=right)
    else:
        _print(found, built, topics)
    if not right:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _run(spark: SparkSession, root: str, progress: ProgressBar) -> dict[str, Any]:
    """Do everything on Spark; return what was found, and how many seconds each step took."""
    from reput_spark.jobs.rebuild import rebuild
    from reput_spark.jobs.sparkengine import collected
    from reput_spark.jobs.stats import COLUMNS, stats
    from reput_spark.source.dataframes import read

    def topics() -> list[dict[str, Any]]:
        counted = stats(read(spark, root, columns=COLUMNS))["topics"]
        return [row.asDict() for row in collected(counted)]

    def timed(step: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        done = work()
        seconds[step] = round(time.perf_counter() - started, 3)
        progress.advance(1)
        return done

    seconds: dict[str, float] = {}
    return {
        "release": spark.version,
        "row_count": timed("read", lambda: _read(spark, root)),
        "built": timed("rebuild", lambda: rebuild(spark, root, _PLUGINS, check=True)),
        "topics": timed("stats", topics),
        "seconds": seconds,
    }


def _make_store(root: str) -> int:
    """Unpack the store and have an index derived; return how many messages the store holds."""
    import shutil

    import reput
    from reput_tools.cli.kit import demostore

    demostore.unpack(root)
    # RocketMQ names index files by its clock when it makes them, which nothing in the log says.
    shutil.rmtree(os.path.join(root, "index"), ignore_errors=True)
    with reput.open(root, plugins=_PLUGINS) as store:
        store.wait_dispatched()
    with reput.open(root, "r", plugins=()) as store:
        return sum(len(batch) for batch in store.scan())


def _read(spark: SparkSession, root: str) -> int:
    """Count the messages of a DataFrame, each of which says its place in its queue."""
    from reput_spark.source.dataframes import read

    frame = read(spark, root, columns=["topic", "queue_id", "queue_offset"])
    row_count: int = frame.distinct().count()
    return row_count


def _print_json(
    found: dict[str, Any], built: list[Rebuilt], topics: list[dict[str, Any]], *, right: bool
) -> None:
    import attrs

    from reput_tools.cli.kit import print_json

    plugins = [attrs.asdict(each) for each in built]
    print_json({**found, "right": right, "plugins": plugins, "topics": topics})


def _print(found: dict[str, Any], built: list[Rebuilt], topics: list[dict[str, Any]]) -> None:
    from reput_tools.cli.kit import (
        Column,
        demostore,
        format_count,
        print_heading,
        print_table,
        styled,
    )

    print_heading(f"The same store on Apache Spark {found['release']}")
    rows = format_count(found["row_count"], "row")
    lines = [
        (found["row_count"] == found["put_count"], f"{rows} of what {demostore.ORIGIN} wrote"),
        *((not each.differences, _told(each)) for each in built),
    ]
    for is_right, text in lines:
        mark = styled("right", fg="green") if is_right else styled("WRONG", fg="red", bold=True)
        click.echo(f"  {mark}  {text}")
    print_heading("What it holds most of")
    columns = [Column("TOPIC"), Column("MESSAGES", right=True), Column("BYTES", right=True)]
    cells = [[row["topic"], f"{row['messages']:,}", f"{row['bytes']:,}"] for row in topics[:_TOP]]
    print_table(columns, cells)


def _told(built: Rebuilt) -> str:
    from reput_tools.cli.kit import escape_text, format_count

    text = f"{built.plugin} of {format_count(built.message_count, 'message')} rebuilt"
    for each in built.differences or ():
        return f"{text}: {escape_text(each.path)}, byte {each.position}: {each.reason}"
    return f"{text}, the same to the byte"

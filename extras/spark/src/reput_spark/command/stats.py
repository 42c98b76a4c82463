"""``reput spark stats``: count what is in logs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from reput_spark.command.engines import progress_of, spark_at
from reput_spark.command.options import (
    corrupt_option,
    end_with_damage,
    master_option,
    paths_argument,
    split_size_option,
)
from reput_tools.cli.kit import json_option, with_debug

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 20


@click.command(short_help="Count messages, bytes, keys and delays.")
@paths_argument
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Keys.")
@corrupt_option
@split_size_option
@master_option
@json_option("one document at the end")
@with_debug
def stats(
    paths: tuple[str, ...],
    top: int,
    corrupt: str,
    split_size: int | None,
    master: str,
    as_json: bool,
) -> None:
    """Count what is in the logs at PATH: per topic, queue, tag and hour; keys; delays.

    `reput report` does the same for one store without Spark, and can write a page with plots.
    """
    with spark_at(master) as spark:
        found, damage_count = _count(spark, paths, top, corrupt, split_size)
    _print(found, damage_count, as_json=as_json)
    end_with_damage(damage_count)


def _count(
    spark: SparkSession, paths: tuple[str, ...], top: int, corrupt: str, split_size: int | None
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Return the rows of each table, and the number of damaged places that were left out."""
    from reput_arrow.reader.wholelogs import plan
    from reput_spark.errors import reading_with_code
    from reput_spark.jobs.sparkengine import collected
    from reput_spark.jobs.stats import COLUMNS
    from reput_spark.jobs.stats import stats as run
    from reput_spark.source.dataframes import absolute_paths, read
    from reput_tools.offline import SPLIT_SIZE

    given = absolute_paths(paths)
    with reading_with_code():  # before Spark begins
        size = sum(task.size for task in plan(given, 1, 1 << 62))
    shown = "collect" if corrupt == "skip" else corrupt
    options = {"corrupt": shown, "split_size": split_size or SPLIT_SIZE}
    rows = messages = read(spark, given, columns=COLUMNS, **options)
    damage_count = 0
    scans = ["topics", "keys"]  # the others count what the first has left
    if shown == "collect":
        messages = rows.where("damage IS NULL")
        scans.insert(0, "damages")
    tables = run(messages)
    tables["keys"] = tables["keys"].limit(top)
    found: dict[str, list[dict[str, Any]]] = {}
    with progress_of("counting") as progress:

        def told(scan: str, share: float) -> None:
            if scan in scans:
                progress.update(round(size * (scans.index(scan) + share)), size * len(scans))

        if shown == "collect":
            damages = rows.where("damage IS NOT NULL").select("damage")
            damage_count = len(collected(damages, functools.partial(told, "damages")))
        for name, table in tables.items():
            rows_of = collected(table, functools.partial(told, name))
            found[name] = [row.asDict() for row in rows_of]
    return found, damage_count


def _print(found: dict[str, list[dict[str, Any]]], damage_count: int, *, as_json: bool) -> None:
    from reput_spark.jobs.stats import QUESTIONS
    from reput_tools.cli.kit import Column, print_heading, print_json, print_table

    for row in found["hours"]:
        row["hour"] = None if row["hour"] is None else int(row["hour"].timestamp() * 1_000)
    if as_json:
        message_count = sum(row["messages"] for row in found["topics"])
        size = sum(row["bytes"] for row in found["topics"])
        facts = {"message_count": message_count, "size": size, "damage_count": damage_count}
        print_json({**facts, **found})
        return
    for name, about in QUESTIONS.items():
        rows = found[name]
        print_heading(f"{name}: {about}")
        names = list(rows[0]) if rows else ["messages"]
        heads = [Column(each, right=each not in _TEXTS) for each in names]
        print_table(heads, [[_cell(*pair) for pair in row.items()] for row in rows[:_SHOWN]])
        if len(rows) > _SHOWN:
            click.echo(f"… and {len(rows) - _SHOWN:,} more; --json shows all")


_TEXTS = frozenset({"topic", "tags", "key", "hour"})


def _cell(name: str, value: Any) -> str:
    from reput_tools.cli.kit import format_timestamp

    if value is None:
        return "-"
    if name == "hour":
        return format_timestamp(value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    return str(value) if name in _TEXTS else f"{value:,}"

"""``reput spark stats``: count what is in logs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from reput_cli.kit import json_option, with_debug
from reput_spark.cli.engines import engine_of, progress_of
from reput_spark.cli.options import corrupt_option, end_with_damage, engine_options, paths_argument

if TYPE_CHECKING:
    from reput_spark.jobs.stats import Stats

__all__ = ["stats"]


@click.command(short_help="Count messages, bytes, keys and delays.")
@paths_argument
@click.option("--html", "page_path", metavar="FILE", help="Write a page with plots, too.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Keys.")
@corrupt_option
@engine_options
@json_option("one document at the end")
@with_debug
def stats(
    paths: tuple[str, ...],
    page_path: str | None,
    top: int,
    corrupt: str,
    master: str,
    jobs: int | None,
    split_size: int | None,
    as_json: bool,
) -> None:
    """Count what is in the logs at PATH: per topic, queue, tag and hour; keys; delays."""
    from reput.log import SPLIT_SIZE
    from reput_spark.jobs.stats import stats as run
    from reput_spark.jobs.stats_page import page

    with engine_of(master, jobs) as engine, progress_of("counting") as progress:
        found = run(
            paths,
            engine,
            split_size=split_size or SPLIT_SIZE,
            top=top,
            corrupt=corrupt,
            progress=progress.update,
        )
    if page_path is not None:
        with open(page_path, "w", encoding="utf-8") as file:
            file.write(page(found, ", ".join(paths)))
    _print(found, as_json=as_json)
    end_with_damage(found.damage_count)


def _print(found: Stats, *, as_json: bool) -> None:
    from reput_cli.kit import Column, print_heading, print_json, print_table
    from reput_spark.jobs.stats import QUESTIONS

    if as_json:
        tables = {name: table.to_pylist() for name, table in found.tables.items()}
        for row in tables["hours"]:
            row["hour"] = int(row["hour"].timestamp() * 1_000)
        facts = {
            "message_count": found.message_count,
            "size": found.size,
            "damage_count": found.damage_count,
        }
        print_json({**facts, **tables})
        return
    for name, about in QUESTIONS.items():
        table = found.tables[name]
        print_heading(f"{name}: {about}")
        rows = table.slice(0, 20).to_pylist()
        heads = [Column(column, right=column in _NUMBERS) for column in table.column_names]
        print_table(heads, [[_cell(value) for value in row.values()] for row in rows])
        if table.num_rows > len(rows):
            click.echo(f"… and {table.num_rows - len(rows):,} more; --html or --json shows more")


_NUMBERS = frozenset(
    {
        "messages",
        "bytes",
        "body_bytes",
        "mean_delay_ms",
        "messages_at_most",
        "from_ms",
        "below_ms",
        "queue_id",
    }
)


@functools.singledispatch
def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


@_cell.register
def _(value: int) -> str:
    return f"{value:,}"


@_cell.register
def _(value: float) -> str:
    return f"{value:,.1f}"

"""``reput spark``: the jobs of reput-spark from the command line."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reput.cli.exitcodes import ExitCode
from reput.cli.failures import Failure
from reput.cli.options import json_option, with_debug

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput.cli.progress import Progress
    from reput.rebuild.driver import Rebuilt
    from reput.rebuild.engine import Engine
    from reput_spark.stats import Stats
    from reput_spark.verify import Verified

__all__ = ["spark"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
_corrupt = click.option(
    "--corrupt",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do at damage.",
)


def _engine_options(command: _Command) -> _Command:
    """``--master``, ``--jobs`` and ``--split-size``."""
    for option in (
        click.option(
            "--split-size",
            metavar="BYTES",
            type=click.IntRange(min=1 << 16),
            help="Bytes of the log that a task reads, about.",
        ),
        click.option(
            "--jobs",
            metavar="COUNT",
            type=click.IntRange(min=1),
            help="No Spark: so many processes of this machine.",
        ),
        click.option(
            "--master",
            metavar="URL",
            default="local[*]",
            show_default=True,
            help="Where Spark runs: local[2], spark://host:7077, sc://host for Connect, …",
        ),
    ):
        command = option(command)
    return command


@click.group(short_help="Rebuild, verify, export and count on Apache Spark.")
def spark() -> None:
    """Jobs that read whole logs: on Apache Spark, or with --jobs in processes of this machine."""


@spark.command(short_help="Build the files of plugins anew.")
@click.argument("path")
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option(
    "--check", is_flag=True, help="Compare with the files that are there; change nothing."
)
@_engine_options
@json_option("one document at the end")
@with_debug
def rebuild(
    path: str,
    plugins: tuple[str, ...],
    check: bool,
    master: str,
    jobs: int | None,
    split_size: int | None,
    as_json: bool,
) -> None:
    """Build the files of each PLUGIN of the store at PATH anew from the log, as `reput rebuild`."""
    from reput.cli.rebuild import print_rebuilt
    from reput.cli.storeplugins import check_store
    from reput.rebuild import SPLIT_SIZE
    from reput.rebuild.driver import run_rebuild

    root = check_store(path)
    with _engine(master, jobs) as engine, _progress("rebuilding") as progress:
        built: list[Rebuilt] = run_rebuild(
            root,
            plugins,
            engine,
            split_size=split_size or SPLIT_SIZE,
            progress=progress.update,
            check=check,
        )
    print_rebuilt(root, built, as_json=as_json)


@spark.command(short_help="Check every record, checksums included.")
@_paths
@_engine_options
@json_option("one document at the end")
@with_debug
def verify(
    paths: tuple[str, ...],
    master: str,
    jobs: int | None,
    split_size: int | None,
    as_json: bool,
) -> None:
    """Read every record of the logs at PATH: structure, own offset, checksum.

    `reput spark rebuild --check` compares what was derived from a log.
    """
    from reput.rebuild import SPLIT_SIZE
    from reput_spark.verify import verify as run

    with _engine(master, jobs) as engine, _progress("verifying") as progress:
        found = run(paths, engine, split_size=split_size or SPLIT_SIZE, progress=progress.update)
        seconds = progress.seconds
    _print_verified(found, seconds, as_json=as_json)
    if found.damages:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


@spark.command(short_help="Write Parquet files by topic and day.")
@_paths
@click.argument("target")
@click.option("--columns", metavar="NAMES", help="Only these columns, commas between them.")
@_corrupt
@_engine_options
@json_option("one document at the end")
@with_debug
def export(
    paths: tuple[str, ...],
    target: str,
    columns: str | None,
    corrupt: str,
    master: str,
    jobs: int | None,
    split_size: int | None,
    as_json: bool,
) -> None:
    """Write the messages of the logs at PATH to the new directory TARGET, as Parquet."""
    from reput.cli.output import format_count, format_rate, format_size, print_json
    from reput.rebuild import SPLIT_SIZE
    from reput_spark.export import export as run

    with _engine(master, jobs) as engine, _progress("exporting") as progress:
        done = run(
            paths,
            target,
            engine,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            split_size=split_size or SPLIT_SIZE,
            corrupt=corrupt,
            progress=progress.update,
        )
        seconds = progress.seconds
    if as_json:
        import attrs

        print_json({"target": target, **attrs.asdict(done), "seconds": seconds})
        return
    click.echo(
        f"{target}: {format_count(done.message_count, 'message')} in "
        f"{format_count(done.file_count, 'file')}, {format_size(done.written_size)} of "
        f"{format_size(done.size)}; {format_rate(done.message_count, seconds)}"
    )


@spark.command(short_help="Count messages, bytes, keys and delays.")
@_paths
@click.option("--html", "page_path", metavar="FILE", help="Write a page with plots, too.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Keys.")
@_corrupt
@_engine_options
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
    from reput.rebuild import SPLIT_SIZE
    from reput_spark.stats import stats as run
    from reput_spark.stats_page import page

    with _engine(master, jobs) as engine, _progress("counting") as progress:
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
    _print_stats(found, as_json=as_json)


# ---------------------------------------------------------------------- engines


def _progress(label: str) -> Progress:
    from reput.cli.progress import Progress

    return Progress(label, None, "bytes")


@contextlib.contextmanager
def _engine(master: str, jobs: int | None) -> Iterator[Engine]:
    if jobs is not None:
        from reput.rebuild.engine import LocalEngine

        with LocalEngine(jobs) as engine:
            yield engine
        return
    try:
        import pyspark  # noqa: F401 - to tell that it is missing before anything is begun
    except ImportError:
        raise Failure(
            "PySpark is not installed: pip install reput-spark, or use --jobs",
            ExitCode.UNAVAILABLE,
        ) from None
    from reput_spark.jobs import SparkEngine

    session = _session(master)
    try:
        yield SparkEngine(session)
    finally:
        session.stop()


def _session(master: str) -> SparkSession:
    if master.startswith("sc://"):
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(master).getOrCreate()
    from reput_spark.session import local_session

    return local_session(master)


# ---------------------------------------------------------------------- printing


def _print_verified(found: Verified, seconds: float, *, as_json: bool) -> None:
    import attrs

    from reput.cli.output import Column, format_count, format_size, print_json, print_table

    if as_json:
        document = attrs.asdict(found)
        document["damages"] = [{**attrs.asdict(each), "size": each.size} for each in found.damages]
        print_json({**document, "seconds": seconds})
        return
    rate = format_size(round(found.size / max(seconds, 1e-9)))
    click.echo(
        f"{format_count(found.message_count, 'message')}, {format_size(found.size)} in "
        f"{format_count(found.split_count, 'split')}, {rate}/s: "
        + (format_count(len(found.damages), "damage") if found.damages else "all sound")
    )
    if found.damages:
        rows = [
            [
                each.file,
                str(each.position),
                str(each.physical_offset),
                f"{each.size:,}",
                each.detail,
            ]
            for each in found.damages
        ]
        heads = [Column("file"), Column("position", right=True), Column("offset", right=True)]
        heads += [Column("bytes", right=True), Column("damage", shrink=True)]
        print_table(heads, rows)


def _print_stats(found: Stats, *, as_json: bool) -> None:
    from reput.cli.output import Column, print_heading, print_json, print_table
    from reput_spark.stats import QUESTIONS

    if as_json:
        tables = {name: table.to_pylist() for name, table in found.tables.items()}
        for row in tables["hours"]:
            row["hour"] = int(row["hour"].timestamp() * 1_000)
        print_json({"message_count": found.message_count, "size": found.size, **tables})
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

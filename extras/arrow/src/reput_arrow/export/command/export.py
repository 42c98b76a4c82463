"""``reput export``: messages as Parquet, JSON lines or CSV."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from reput_arrow.export.command.options import (
    corrupt_option,
    since_option,
    topics_option,
    until_option,
)
from reput_tools.cli.kit import CheckedPath, jobs_option, json_option, with_debug

if TYPE_CHECKING:
    from reput_arrow.export.exporter.exportrequest import Exported

_COMPRESSIONS = ("zstd", "gzip", "none", "snappy", "lz4")
_ONE_FILE = frozenset(
    {".db", ".duckdb", ".gz", ".ods", ".sqlite", ".tar", ".tgz", ".xls", ".xlsx", ".zip"}
)
"""How the name of a single file ends, in forms that no export has."""


def _names(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Return the names in a value with commas; refuse a value without one."""
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if parameter.name == "partition_by" and names == ("none",):
        return ()
    if not names:
        raise click.BadParameter("it is empty; leave it out, or give a value", context, parameter)
    return names


_JSON = {
    "target": "the directory OUT",
    "message_count": "messages",
    "size": "bytes of the logs",
    "file_count": "files that were written",
    "written_size": "their bytes",
    "damage_count": "damaged places that were left out",
    "increment": "number of the part that was added to OUT, or null",
    "seconds": "how long it took",
}


@click.command(short_help="Write messages as Parquet, JSON lines or CSV.")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=CheckedPath(readable=False)
)
@click.argument("target", metavar="OUT", type=CheckedPath(readable=False))
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "jsonl", "csv"]),
    default="parquet",
    show_default=True,
    help="The format of the files.",
)
@topics_option
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="ID",
    type=click.IntRange(min=0),
    help="Only this queue; may be repeated.",
)
@since_option
@until_option
@click.option(
    "-w", "--where", metavar="SQL", help="Only messages whose properties meet this condition."
)
@click.option(
    "--columns", metavar="NAMES", callback=_names, help="Only these columns, separated by commas."
)
@click.option(
    "--partition-by",
    metavar="NAMES",
    callback=_names,
    default="topic,day",
    show_default=True,
    help="Create directories by topic, queue, day or hour, outer ones first; or none.",
)
@click.option(
    "--compression",
    type=click.Choice(_COMPRESSIONS),
    help="The compression of the files. Default: zstd for Parquet, none for text.",
)
@click.option("--raw", is_flag=True, help="Do not decompress bodies that producers compressed.")
@click.option(
    "--incremental",
    is_flag=True,
    help="Add the messages that are new since the last such export, each message once.",
)
@click.option(
    "--allow-loss",
    is_flag=True,
    help="With --incremental: continue even if log files were removed before they were exported.",
)
@corrupt_option
@jobs_option("the number of processors")
@json_option("one document at the end", _JSON)
@with_debug
def export(
    paths: tuple[str, ...],
    target: str,
    form: str,
    topics: tuple[str, ...],
    queues: tuple[int, ...],
    since: int | None,
    until: int | None,
    where: str | None,
    columns: tuple[str, ...] | None,
    partition_by: tuple[str, ...],
    compression: str | None,
    raw: bool,
    incremental: bool,
    allow_loss: bool,
    corrupt: str,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Write the messages of the stores at PATH to the directory OUT.

    A PATH is a store, a directory of stores, or a directory of log files alone. OUT appears in one
    step when all files are written. With --incremental each run adds a directory with the new
    messages to OUT, also in one step. A body that does not match its checksum counts as damage,
    unless --columns leaves bodies out. The command needs no plugin, but --where needs the plugin
    filter. Another process may write the store meanwhile. The exit code is 3 if the log has no
    message of the topics.
    """
    from reput_tools.cli.kit import ProgressBar, print_json

    _check_target(target)
    from reput_arrow.export.command.jobfailures import end_with_damage, failures
    from reput_arrow.export.exporter.exportjob import export as run
    from reput_tools.offline import LocalEngine

    with (
        failures(paths, topics),
        LocalEngine(jobs) as engine,
        ProgressBar("exporting", None, "bytes") as progress,
    ):
        done = run(
            paths,
            target,
            engine,
            columns=columns,
            corrupt=corrupt,
            compression=compression,
            progress=progress.update,
            form=form,
            partition_by=partition_by,
            topic=topics or None,
            queue=queues or None,
            since=since,
            until=until,
            where=where,
            raw=raw,
            incremental=incremental,
            allow_loss=allow_loss,
        )
        seconds = progress.seconds
    if as_json:
        import attrs

        print_json({"target": target, **attrs.asdict(done), "seconds": seconds})
    else:
        _tell(target, done, seconds, incremental=incremental)
    end_with_damage(done.damage_count)


def _check_target(target: str) -> None:
    suffix = os.path.splitext(target)[1].lower()
    if suffix in _ONE_FILE:
        raise click.BadParameter(
            f"{target} would be a folder, as each export is: of Parquet, JSON lines or CSV files "
            f"(--format), and not a {suffix} file; choose another name",
            param_hint="OUT",
        )


def _tell(target: str, done: Exported, seconds: float, *, incremental: bool) -> None:
    from reput_tools.cli.kit import escape_text, format_count, format_rate, format_size, warn

    shown = escape_text(target)
    if incremental and done.increment is None:
        click.echo(f"{shown}: nothing is new")
        return
    if not done.message_count:
        warn("no message is of what was asked for; `reput info PATH` lists topics and times")
    where = shown if done.increment is None else f"{shown}, export {done.increment}"
    click.echo(
        f"{where}: {format_count(done.message_count, 'message')} in "
        f"{format_count(done.file_count, 'file')}, {format_size(done.written_size)} of "
        f"{format_size(done.size)}; {format_rate(done.message_count, seconds)}"
    )

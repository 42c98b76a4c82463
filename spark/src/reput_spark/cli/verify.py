"""``reput spark verify``: check every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.exitcodes import ExitCode
from reput.cli.options import json_option, with_debug
from reput_spark.cli.engines import engine_of, progress_of
from reput_spark.cli.options import engine_options, paths_argument

if TYPE_CHECKING:
    from reput_spark.jobs.verify import Verified

__all__ = ["verify"]


@click.command(short_help="Check every record, checksums included.")
@paths_argument
@engine_options
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
    from reput_spark.jobs.verify import verify as run

    with engine_of(master, jobs) as engine, progress_of("verifying") as progress:
        found = run(paths, engine, split_size=split_size or SPLIT_SIZE, progress=progress.update)
        seconds = progress.seconds
    _print(found, seconds, as_json=as_json)
    if found.damages:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _print(found: Verified, seconds: float, *, as_json: bool) -> None:
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

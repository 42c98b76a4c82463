"""``reput spark export``: write Parquet."""

from __future__ import annotations

import click

from reput_spark.command.engines import engine_of, progress_of
from reput_spark.command.options import (
    corrupt_option,
    end_with_damage,
    engine_options,
    paths_argument,
)
from reput_tools.cli.kit import CheckedPath, json_option, with_debug


@click.command(short_help="Write Parquet files by topic and day.")
@paths_argument
@click.argument("target", type=CheckedPath(readable=False))
@click.option("--columns", metavar="NAMES", help="Only these columns, separated by commas.")
@corrupt_option
@engine_options
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
    from reput_spark.jobs.export import export as run
    from reput_tools.cli.kit import format_count, format_rate, format_size, print_json
    from reput_tools.offline import SPLIT_SIZE

    with engine_of(master, jobs) as engine, progress_of("exporting") as progress:
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
        end_with_damage(done.damage_count)
        return
    click.echo(
        f"{target}: {format_count(done.message_count, 'message')} in "
        f"{format_count(done.file_count, 'file')}, {format_size(done.written_size)} of "
        f"{format_size(done.size)}; {format_rate(done.message_count, seconds)}"
    )
    end_with_damage(done.damage_count)

"""``reput spark import``: a store out of Parquet."""

from __future__ import annotations

import click

from reput_spark.command.engines import progress_of, spark_at
from reput_spark.command.options import master_option
from reput_tools.cli.kit import CheckedPath, follow_links_option, json_option, with_debug


@click.command("import", short_help="Create a store from Parquet files that export wrote.")
@click.argument("source", metavar="PARQUET", type=CheckedPath(readable=False))
@click.argument("store", metavar="STORE", type=CheckedPath(readable=False))
@follow_links_option
@click.option(
    "--file-size", metavar="BYTES", type=click.IntRange(min=128), help="The size of a log file."
)
@click.option(
    "--no-dispatch",
    is_flag=True,
    help="Do not build queues and indexes; the store does when it is next opened.",
)
@master_option
@json_option("one document at the end")
@with_debug
def import_(
    source: str,
    store: str,
    file_size: int | None,
    no_dispatch: bool,
    master: str,
    as_json: bool,
) -> None:
    """Create STORE from the messages in PARQUET, each queue in its order."""
    from reput_tools.cli.kit import (
        follows_links,
        format_count,
        format_rate,
        format_size,
        print_json,
    )

    with spark_at(master) as session, progress_of("importing") as progress:
        from reput_spark.jobs.importjob import import_parquet

        done = import_parquet(
            session,
            source,
            store,
            file_size=file_size,
            dispatch=not no_dispatch,
            follow_links=follows_links(),
            progress=progress.update,
        )
        seconds = progress.seconds
    if as_json:
        import attrs

        print_json({"store": store, **attrs.asdict(done), "seconds": seconds})
        return
    click.echo(
        f"{store}: {format_count(done.record_count, 'message')} in "
        f"{format_count(done.file_count, 'file')}, {format_size(done.end_offset)} of log; "
        f"{format_rate(done.record_count, seconds)}"
    )

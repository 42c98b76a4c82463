"""``reput import``: a store of what was exported."""

from __future__ import annotations

import click

from reput_tools.cli.kit import CheckedPath, follow_links_option, json_option, with_debug

_JSON = {
    "store": "the new store's directory",
    "record_count": "messages",
    "file_count": "files of the log",
    "start_offset": "where the log begins",
    "end_offset": "where it ends",
    "was_there": "false: the store is new",
    "finished[]": "empty: the store is new",
    "taken_back[]": "empty: the store is new",
    "seconds": "how long it took",
}


@click.command("import", short_help="Create a store from files that export wrote.")
@click.argument("source", metavar="OUT", type=CheckedPath(readable=False))
@click.argument("store", metavar="PATH", type=CheckedPath(readable=False))
@follow_links_option
@click.option(
    "--file-size",
    metavar="BYTES",
    type=click.IntRange(min=128),
    help="The size of a log file; without it, the files of the store are small, and grow.",
)
@click.option(
    "--no-dispatch",
    is_flag=True,
    help="Do not build queues and indexes; the store does when it is next opened.",
)
@json_option("one document at the end", _JSON)
@with_debug
def import_(
    source: str, store: str, file_size: int | None, no_dispatch: bool, as_json: bool
) -> None:
    """Build the new store PATH from the messages in OUT, each queue in its order.

    OUT is a directory of Parquet, JSON lines or CSV files that `reput export` wrote, also with
    --incremental. Other files with columns of messages work, too, and the lines of `reput cat
    --json`. The new store keeps hosts, times, keys, tags and properties. If the store exists, the
    command ends with code 5.
    """
    import attrs

    from reput_arrow.export.command.jobfailures import failures
    from reput_arrow.export.importer.importjob import import_ as run
    from reput_tools.cli.kit import (
        ProgressBar,
        escape_text,
        follows_links,
        format_count,
        format_rate,
        format_size,
        print_json,
    )

    with failures(), ProgressBar("importing", None, "bytes") as progress:
        done = run(
            source,
            store,
            file_size=file_size,
            dispatch=not no_dispatch,
            follow_links=follows_links(),
            progress=progress.update,
        )
        seconds = progress.seconds
    if as_json:
        print_json({"store": store, **attrs.asdict(done), "seconds": seconds})
        return
    click.echo(
        f"{escape_text(store)}: {format_count(done.record_count, 'message')} in "
        f"{format_count(done.file_count, 'file')}, {format_size(done.end_offset)} of log; "
        f"{format_rate(done.record_count, seconds)}"
    )

"""``reput compact``: a compaction now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.exitcodes import ExitCode
from reput.cli.options import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_compaction._compaction import Compacted

__all__ = ["compact"]

_EXAMPLES = """\b
Examples:
  reput compact STORE
  reput compact STORE prices --json
"""


@click.command(short_help="Compact topics now.", epilog=_EXAMPLES)
@path_argument
@click.argument("topic", required=False)
@json_option("one document at the end")
@with_debug
def compact(path: str, topic: str | None, as_json: bool) -> None:
    """Drop what later messages with the same key have superseded in the compacted topics at PATH.

    Without TOPIC all of them are compacted. Files that are being written are closed for it, so that
    nothing is left out. The store must not be open for writing elsewhere.
    """
    from reput.cli.failures import Failure
    from reput.cli.opening import open_to_write
    from reput.cli.progress import Progress

    with open_to_write(path) as store:
        with Progress("dispatching", None, "bytes") as bar:
            store.wait_dispatched(progress=bar.update)
        run = getattr(store, "compact", None)
        if run is None:
            text = (
                f"{path}: the store has no compacted topics; it does not use the plugin compaction"
            )
            raise Failure(text, ExitCode.UNAVAILABLE)
        with Progress("compacting", None, "bytes") as bar:
            try:
                results = run(topic, progress=bar.update)
            except ValueError as error:
                raise Failure(str(error), ExitCode.NOT_FOUND) from None
    _print(results, as_json=as_json)


def _print(results: list[Compacted], *, as_json: bool) -> None:
    import attrs

    from reput.cli.output import Column, print_json, print_table

    if as_json:
        print_json({"queues": [attrs.asdict(each) for each in results]})
        return
    if not results:
        click.echo("nothing to compact")
        return
    columns = [
        Column("TOPIC", shrink=True),
        Column("QUEUE", right=True),
        Column("MESSAGES", right=True),
        Column("KEPT", right=True),
        Column("SIZE", right=True),
        Column("KEPT", right=True),
        Column("FILES", right=True),
        Column("KEPT", right=True),
    ]
    print_table(columns, [_row(each) for each in results])


def _row(each: Compacted) -> list[str]:
    from reput.cli.output import format_count, format_size

    return [
        each.topic,
        str(each.queue_id),
        format_count(each.messages_before),
        format_count(each.messages_after),
        format_size(each.size_before),
        format_size(each.size_after),
        format_count(each.files_before),
        format_count(each.files_after),
    ]

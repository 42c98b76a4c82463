"""``reput losses``: lists what the log of a store has lost, and what was done about it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit.jsonkeys import STORE_KEYS, below, json_option
from reput_tools.cli.kit.options import path_argument, with_debug
from reput_tools.cli.kit.storeopening import open_to_read
from reput_tools.cli.messages.lossoutput import kept_in, loss_document, lost_queue, lost_size
from reput_tools.cli.messages.messagekeys import LOSS_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput import Store
    from reput.log import Loss

_EXAMPLES = """\b
Examples:
  reput losses STORE
  reput losses STORE --json | jq '.losses[] | select(.action == "cut")'
"""
_JSON = {
    **STORE_KEYS,
    "size": "bytes of all losses",
    "read.start_offset": "where this command began to read the log",
    "read.end_offset": "where it ended",
    "read.log_size": "bytes of the log",
    **below("losses[]", LOSS_KEYS),
}


@click.command(short_help="List what the log has lost.", epilog=_EXAMPLES)
@path_argument
@json_option("one document", _JSON)
@with_debug
def losses(path: str, as_json: bool) -> None:
    r"""List the ranges of the log at PATH that cannot be read any more, oldest loss first.

    "filled": filler records took the place of the damage, and the log continues after them. "cut":
    the log ended there. "skipped": the bytes are unchanged, and readers skip them. The command
    itself changes nothing. If a crash removed messages from the end of the log and a queue still
    refers to them, the list shows them as GONE, with their queue offsets.

    The list contains the damage that openings and reads have found. It does not contain damage that
    no command has read yet, such as bytes that changed in a closed store: `reput info PATH --scan`
    reads the whole log and lists all damage. The list is a history: the exit code is 0 also if it
    has losses.
    """
    from reput_tools.cli.kit.output import print_json

    with _opened(path) as store:
        root, found, read = store.root, store.losses(), _read(store)
        problems = list(store.problems)
    if as_json:
        document = {"path": root, "problems": problems, "size": lost_size(found), "read": read}
        print_json(document | {"losses": [loss_document(root, loss) for loss in found]})
        return
    if found:
        _print(root, found)
    else:
        click.echo(f"The store at {root} has recorded no loss.")
    click.echo(_what_was_read(root, read))


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Store]:
    """Open the store with its plugins, some of which know of losses; else without plugins."""
    from reput.errors import ConfigError, PluginError

    with contextlib.ExitStack() as stack:
        try:
            store = stack.enter_context(open_to_read(path))
        except (ConfigError, PluginError):
            store = stack.enter_context(open_to_read(path, plugins=()))
        yield store


def _read(store: Store) -> dict[str, int]:
    """Return which part of the log this opening has read."""
    log, recovery = store.log, store.recovery
    return {
        "start_offset": recovery.start_offset,
        "end_offset": recovery.end_offset,
        "log_size": log.max_physical_offset - log.min_physical_offset,
    }


def _what_was_read(root: str, read: dict[str, int]) -> str:
    import shlex

    from reput_tools.cli.kit.output import format_size

    size = format_size(max(read["end_offset"] - read["start_offset"], 0))
    return (
        f"This command has read {size} of the log's {format_size(read['log_size'])}. To read the "
        f"whole log and verify every checksum, run: reput info {shlex.quote(root)} --scan"
    )


def _print(root: str, found: Sequence[Loss]) -> None:
    from reput_tools.cli.kit.output import Column, format_count, format_size, print_table
    from reput_tools.cli.kit.timestamps import format_timestamp

    columns = [
        Column("FROM", right=True),
        Column("TO", right=True),
        Column("SIZE", right=True),
        Column("REASON"),
        Column("FIRST LOST", shrink=True),
        Column("ACTION"),
        Column("KEPT AS", shrink=True),
        Column("NOTICED (UTC)", shrink=True),
    ]
    rows = [
        (
            str(loss.start_offset),
            str(loss.end_offset),
            format_size(loss.size),
            loss.reason,
            lost_queue(loss),
            loss.action,
            loss.kept or "-",
            format_timestamp(loss.timestamp or None).partition(".")[0],
        )
        for loss in found
    ]
    print_table(columns, rows)
    click.echo()
    total = format_size(lost_size(found))
    click.echo(f"{format_count(len(found), 'loss', 'losses')}, {total} in all")
    if any(loss.kept for loss in found):
        click.echo(f"What stood there is kept in {kept_in(root)}")

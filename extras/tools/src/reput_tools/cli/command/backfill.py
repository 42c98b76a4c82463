"""``reput backfill``: brings one plugin forward to the end of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit.completion import complete_installed_plugin
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import warn
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, with_debug

if TYPE_CHECKING:
    from reput_tools.cli.plugins.catchup import CaughtUp

_EXAMPLES = """\b
Examples:
  reput backfill STORE audit
  reput backfill STORE consumequeue --from-start
"""
_JSON = {
    "path": "the store's directory",
    "plugin": "the plugin",
    "is_added": "whether the command added it to the store",
    "is_followed": "whether another process has the store open, and the plugin catches up there",
    "is_complete": "whether it has reached the end of the log",
    "is_interrupted": "whether Ctrl-C ended the command, which prints the document also then",
    "start_offset": "where the plugin was at the beginning",
    "dispatched_to": "where it is now",
    "end_offset": "end of the log when the command began",
    "size": "bytes of the log that it has seen since then",
    "seconds": "how long it took",
}


@click.command(short_help="Let a plugin catch up to the end of the log.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugin", shell_complete=complete_installed_plugin)
@click.option(
    "--from-start", is_flag=True, help="Discard the plugin's progress, and derive everything again."
)
@click.option(
    "--no-wait",
    is_flag=True,
    help="If another process has the store open, only show the plugin's progress.",
)
@json_option("one document at the end", _JSON)
@with_debug
def backfill(path: str, plugin: str, from_start: bool, no_wait: bool, as_json: bool) -> None:
    r"""Let PLUGIN of the store at PATH catch up to the end of the log, and show its progress.

    If the store does not use the plugin yet, the command adds it. Ctrl-C keeps the finished part,
    and the same command continues from there, as does the next process that opens the store for
    writing. If another process has the store open, the plugin catches up in that process, and this
    command shows its progress. With --from-start no other process may have the store open. The
    command does not resume a suspended plugin.
    """
    from reput_tools.cli.plugins.catchup import catch_up

    done = catch_up(path, plugin, from_start=from_start, waits=not no_wait)
    _print(path, done, as_json=as_json)
    if done.is_interrupted:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)


def _print(path: str, done: CaughtUp, *, as_json: bool) -> None:
    from reput_tools.cli.kit.output import format_size, print_json
    from reput_tools.cli.kit.timestamps import format_duration

    if done.is_interrupted:
        rest = format_size(max(done.end_offset - done.dispatched_to, 0))
        how = f"`reput backfill {path} {done.plugin}` goes on from there"
        if done.is_followed:
            how = "the process that has the store open goes on by itself"
        warn(
            f"interrupted with {done.plugin!r} at physical offset {done.dispatched_to}, "
            f"{rest} to go; {how}"
        )
    if as_json:
        print_json(done.document())
    elif done.dispatched_to < done.end_offset:
        rest = format_size(done.end_offset - done.dispatched_to)
        click.echo(f"{done.plugin}: at physical offset {done.dispatched_to}, behind by {rest}")
    elif done.size:
        took = format_duration(done.seconds)
        rate = format_size(round(done.size / max(done.seconds, 1e-9)))
        click.echo(
            f"{done.plugin}: {format_size(done.size)} in {took} ({rate}/s); "
            f"it now has the whole log, up to physical offset {done.end_offset}"
        )
    else:
        click.echo(
            f"{done.plugin}: it already had the whole log, up to physical offset {done.end_offset}"
        )

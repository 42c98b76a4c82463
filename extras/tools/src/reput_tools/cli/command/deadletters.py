"""``reput dead-letters``: messages that a plugin failed on and that were skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit.completion import complete_plugin
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, with_debug
from reput_tools.cli.kit.storeopening import look_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.storefiles import DeadLetter

_EXAMPLES = """\b
Examples:
  reput dead-letters STORE audit
  reput dead-letters STORE audit --json | jq '.dead_letters[].physical_offset'
"""
_JSON = {
    "path": "the store's directory",
    "plugin": "the plugin",
    "dead_letters[].physical_offset": "where the message is in the log",
    "dead_letters[].size": "bytes of its record",
    "dead_letters[].topic": "its topic",
    "dead_letters[].queue_id": "its queue",
    "dead_letters[].queue_offset": "its place in the queue",
    "dead_letters[].error": "type and text of the plugin's exception",
    "dead_letters[].timestamp": "when the plugin skipped it",
}


@click.command("dead-letters", short_help="List messages that a plugin skipped.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugin", shell_complete=complete_plugin)
@json_option("one document", _JSON)
@with_debug
def dead_letters(path: str, plugin: str, as_json: bool) -> None:
    r"""List the messages on which PLUGIN of the store at PATH failed, oldest first.

    Only a plugin with the policy "skip" has dead letters. The messages themselves are in the log:
    `reput get PATH --offset N` shows one. A message that was skipped twice is listed twice. The
    command opens neither the plugin nor the store, and also works for a plugin that the store no
    longer uses.
    """
    import attrs

    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.kit.storeplugins import check_store

    root = check_store(path)
    _check_plugin(root, plugin)
    found = look_at(root).dead_letters(plugin).read()
    if as_json:
        letters = [attrs.asdict(letter) for letter in found]
        print_json({"path": root, "plugin": plugin, "dead_letters": letters})
    elif found:
        _print(path, found)
    else:
        click.echo(f"No dead letters of plugin {plugin!r} in the store at {root}.")


def _check_plugin(root: str, plugin: str) -> None:
    """Check that the store uses the plugin, or once did."""
    from reput.files import is_safe_name
    from reput_tools.cli.kit.storeplugins import check_used

    found = look_at(root)
    if not is_safe_name(plugin) or not found.disk.exists(found.dead_letters(plugin).path):
        check_used(root, plugin)


def _print(path: str, found: Sequence[DeadLetter]) -> None:
    from reput_tools.cli.kit.output import Column, format_count, print_table
    from reput_tools.cli.kit.timestamps import format_timestamp

    columns = [
        Column("SKIPPED AT (UTC)"),
        Column("MESSAGE", shrink=True),
        Column("PHYSICAL OFFSET", right=True),
        Column("ERROR", shrink=True),
    ]
    rows = [
        (
            format_timestamp(letter.timestamp).partition(".")[0],
            f"{letter.topic}/{letter.queue_id}@{letter.queue_offset}",
            str(letter.physical_offset),
            letter.error,
        )
        for letter in found
    ]
    print_table(columns, rows)
    click.echo()
    click.echo(
        f"{format_count(len(found), 'dead letter')}; "
        f"reput get {path} --offset {found[0].physical_offset} shows the first"
    )

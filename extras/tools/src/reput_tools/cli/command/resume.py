"""``reput resume``: lets a suspended plugin go on."""

from __future__ import annotations

import click

from reput_tools.cli.kit.completion import complete_plugin
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, timeout_option, with_debug
from reput_tools.cli.plugins.pluginkeys import CHANGE_KEYS

_EXAMPLES = """\b
Examples:
  reput resume STORE audit
  reput plugins STORE
"""


@click.command(short_help="Resume a plugin that was suspended or has failed.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugin", shell_complete=complete_plugin)
@timeout_option
@json_option("the plugin's new state", CHANGE_KEYS)
@with_debug
def resume(path: str, plugin: str, timeout: float, as_json: bool) -> None:
    r"""Resume PLUGIN of the store at PATH, which was suspended, has failed or has halted.

    The plugin continues where it stopped, and catches up while the other plugins continue. If a
    process has the store open, the command sends it a request, and ends with code 4 if the process
    does not take it in time, and with 5 if the process cannot carry it out. Otherwise the plugin
    continues when the store is opened for writing.
    """
    from reput.storefiles import RESUME
    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.kit.statechange import change_plugin

    answer = change_plugin(path, plugin, RESUME, timeout)
    if as_json:
        print_json(answer.document())
        return
    click.echo(f"{plugin}: resumed at physical offset {answer.dispatched_to}")
    if answer.is_written:
        click.echo(f"reput plugins {path} shows how it catches up")
    else:
        click.echo(
            "no process has the store open: it goes on when the store is opened for writing, "
            f"or now with: reput backfill {path} {plugin}"
        )

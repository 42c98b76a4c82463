"""``reput suspend``: gives a plugin no messages any more."""

from __future__ import annotations

import click

from reput_tools.cli.kit.completion import complete_plugin
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, timeout_option, with_debug
from reput_tools.cli.plugins.pluginkeys import CHANGE_KEYS

_EXAMPLES = """\b
Examples:
  reput suspend STORE audit
  reput resume STORE audit
"""


@click.command(
    short_help="Suspend a plugin, so that it gets no messages until you resume it.",
    epilog=_EXAMPLES,
)
@path_argument
@click.argument("plugin", shell_complete=complete_plugin)
@timeout_option
@json_option("the plugin's new state", CHANGE_KEYS)
@with_debug
def suspend(path: str, plugin: str, timeout: float, as_json: bool) -> None:
    r"""Suspend PLUGIN of the store at PATH, so that it gets no messages until you resume it.

    The plugin keeps its place in the log and its files; the other plugins continue. If a
    process has the store open, the command sends it a request; if the process does not take the
    request in time, the command withdraws it and ends with code 4. The plugin stays suspended when
    the store is closed and opened again.
    """
    from reput.storefiles import SUSPEND
    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.kit.statechange import change_plugin

    answer = change_plugin(path, plugin, SUSPEND, timeout)
    if as_json:
        print_json(answer.document())
        return
    click.echo(f"{plugin}: suspended at physical offset {answer.dispatched_to}")
    click.echo(f"reput resume {path} {plugin} lets it go on from there")

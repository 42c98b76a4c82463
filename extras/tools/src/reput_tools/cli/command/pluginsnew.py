"""``reput plugins new``: makes the folder of a plugin that passes its tests at once."""

from __future__ import annotations

import os

import click

from reput_tools.cli.kit.escape import escape_text
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import CheckedPath, with_debug

_EXAMPLES = """\b
Examples:
  reput plugins new words
  reput plugins new words --directory ~/plugins/words
  reput plugins new words --files
"""
_JSON = {
    "plugin": "the plugin",
    "directory": "the folder that the command created",
    "files[]": "paths of its files, below it",
}


@click.command(short_help="Make the folder of a new plugin.", epilog=_EXAMPLES)
@click.argument("name")
@click.option(
    "-d",
    "--directory",
    type=CheckedPath(),
    help="The folder to create, which must not exist. Default: ./reput-NAME.",
)
@click.option("--files", is_flag=True, help="Keep a file of its own in place of a table.")
@json_option("one document", _JSON)
@with_debug
def new(name: str, directory: str | None, files: bool, as_json: bool) -> None:
    r"""Create a folder for a new plugin NAME, with sources, an entry point and tests.

    The new plugin keeps a table that counts messages, and passes the rules for all plugins. Change
    its columns and its rows, and run its tests again. With --files, the plugin keeps the counts in
    a file with its own format: copy this one if a table does not fit.
    """
    from importlib.util import find_spec

    from reput.installhints import install_command
    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.plugins.plugintemplate import check_name, create

    reason = check_name(name)
    if reason is not None:
        raise click.BadParameter(f"{name!r}: {reason}", param_hint="NAME")
    target = directory or f"reput-{name}"
    try:
        made = create(name, target, files=files)
    except FileExistsError:
        text = f"{target}: this file or directory exists already; name another with --directory"
        raise Failure(text, ExitCode.UNAVAILABLE) from None
    if as_json:
        print_json({"plugin": name, "directory": os.path.abspath(target), "files": made})
        return
    click.echo(f"Created the plugin {name} in {escape_text(target)}. Next:")
    wanted = ("testing",) if files else ("table", "testing")
    if needed := [each for each in wanted if find_spec(f"reput_{each}") is None]:
        click.echo(f"  {install_command(*needed)}")
    click.echo(f"  pip install --no-deps --editable {escape_text(target)}")
    click.echo(f"  python -m pytest {escape_text(target)}")
    click.echo(f"  reput plugins check {name}")
    click.echo(f"  edit {escape_text(os.path.join(target, 'src', f'reput_{name}', 'plugin.py'))}")

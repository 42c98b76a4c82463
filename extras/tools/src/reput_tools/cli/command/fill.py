"""``reput fill``: gives the files of a store their full size."""

from __future__ import annotations

import click

from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, with_debug

__all__ = ["fill"]

_EXAMPLES = """\b
Examples:
  reput fill STORE
"""
_JSON = {
    "path": "the store's directory",
    "is_changed": "whether its files grew until now",
    "settings": "lines of `broker.conf` that a broker of this directory needs",
}


@click.command(short_help="Give files that grow their full size, for a broker.", epilog=_EXAMPLES)
@path_argument
@json_option("one document", _JSON)
@with_debug
def fill(path: str, as_json: bool) -> None:
    """Give the files of the store at PATH their full size, as a broker needs them.

    A new store of reput has small files, which grow. A broker refuses a file whose length is not
    the configured one. This command extends the files without taking disk space, and new files
    have their full size from then on. The last lines of the output are the options that
    `broker.conf` needs. No other process may have the store open for writing.
    """
    from reput.log import LOG_SECTION
    from reput_tools.cli.kit.brokerconf import settings_of
    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.kit.storeopening import open_to_write

    with open_to_write(path, config={LOG_SECTION: {"grows": False}}) as store:
        grew, root, settings = store.log.files.fills, store.root, settings_of(store)
    if as_json:
        print_json({"path": root, "is_changed": grew, "settings": settings})
        return
    click.echo("all files have their full size now" if grew else "all files have their full size")
    for line in settings:
        click.echo(line)

"""``reput promote``: ends the following of a store, which takes messages from then on."""

from __future__ import annotations

import click

from reput_tools.cli.kit import json_option, path_argument, with_debug

_JSON = {
    "store": "the store's directory",
    "master": "name of the broker that it followed",
    "max_physical_offset": "end of its log",
}


@click.command(short_help="Let a replica stop following and take messages itself.")
@path_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option("one document", _JSON)
@with_debug
def promote(path: str, yes: bool, as_json: bool) -> None:
    """Turn the store at PATH, which follows a broker, into a store that takes messages.

    The store cannot follow its master afterwards, so the command asks first. Before it takes the
    master's place, stop the master for good. Otherwise two brokers with one name have different
    logs.
    """
    from reput_tools.cli.kit import check_store, confirm, open_to_write, print_facts, print_json

    root = check_store(path)
    if not yes:
        confirm(f"{path}: promote it? It cannot follow its master afterwards.")
    with open_to_write(root) as store:
        master, end = store.master, store.log.max_physical_offset
        store.promote()
    if as_json:
        print_json({"store": root, "master": master, "max_physical_offset": end})
        return
    print_facts([("store", root), ("followed", str(master)), ("ends at", str(end))], indent=0)
    click.echo(f"It takes messages now: `reput put {path} TOPIC`, `reput serve {path}`.")

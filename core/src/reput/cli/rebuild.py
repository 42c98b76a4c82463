"""``reput rebuild``: builds the files of plugins anew from the log, on all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.options import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput.rebuild.local import Rebuilt

__all__ = ["rebuild"]

_EXAMPLES = """\b
Examples:
  reput rebuild STORE
  reput rebuild STORE consumequeue index --jobs 4
"""


@click.command(short_help="Build the files of plugins anew, on all cores.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes; as many as processors when left out."
)
@json_option("one document at the end")
@with_debug
def rebuild(path: str, plugins: tuple[str, ...], jobs: int | None, as_json: bool) -> None:
    r"""Build the files of each PLUGIN of the store at PATH anew from the log.

    Without PLUGIN: of all plugins that keep nothing but what follows from the log. The files that
    are there stay in use until the new ones are complete; no other process may have the store
    open for writing. What is built is, byte for byte, what the plugins write while messages
    arrive.
    """
    from reput.cli.progress import Progress
    from reput.cli.storeplugins import check_store
    from reput.rebuild.local import rebuild as build

    root = check_store(path)
    with Progress("rebuilding", None, "bytes") as progress:
        built = build(root, plugins, jobs=jobs, progress=progress.update)
    if as_json:
        _print_json(root, built)
    else:
        _print(root, built)


def _print_json(root: str, built: list[Rebuilt]) -> None:
    import attrs

    from reput.cli.output import print_json

    print_json({"path": root, "plugins": [attrs.asdict(each) for each in built]})


def _print(root: str, built: list[Rebuilt]) -> None:
    from reput.cli.output import Column, format_size, print_table
    from reput.cli.times import format_duration

    if not built:
        click.echo(f"{root}: none of its plugins derives files from the log")
        return
    rows = []
    for each in built:
        seconds = max(each.seconds, 1e-9)
        how = f"{each.split_count} splits" if each.split_count > 1 else "in one piece"
        rows.append(
            [
                each.plugin,
                f"{each.message_count:,}",
                format_size(each.size),
                format_duration(each.seconds),
                f"{format_size(round(each.size / seconds))}/s",
                how if each.reason is None else f"{how}: {each.reason}",
            ]
        )
    columns = [
        Column("PLUGIN"),
        Column("MESSAGES", right=True),
        Column("LOG", right=True),
        Column("TIME", right=True),
        Column("RATE", right=True),
        Column("BUILT", shrink=True),
    ]
    print_table(columns, rows)

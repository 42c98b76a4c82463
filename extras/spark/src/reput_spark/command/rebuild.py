"""``reput spark rebuild``: rebuild the files of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_spark.command.engines import engine_of, progress_of
from reput_spark.command.options import engine_options
from reput_tools.cli.kit import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_tools.offline import Rebuilt


@click.command(short_help="Rebuild the files of plugins.")
@path_argument
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option("--check", is_flag=True, help="Only compare with the existing files; change nothing.")
@engine_options
@json_option("one document at the end")
@with_debug
def rebuild(
    path: str,
    plugins: tuple[str, ...],
    check: bool,
    master: str,
    jobs: int | None,
    split_size: int | None,
    as_json: bool,
) -> None:
    """Rebuild the files of each PLUGIN of the store at PATH from the log, as `reput rebuild`."""
    from reput_tools.cli.kit import (
        check_store,
        check_used,
        follows_links,
        print_rebuilt,
        used_plugins,
    )
    from reput_tools.offline import SPLIT_SIZE, run_rebuild

    root = check_store(path)
    if used_plugins(root) is not None:  # of a store of RocketMQ's own everything can be built
        for plugin in plugins:
            check_used(root, plugin)
    with engine_of(master, jobs) as engine, progress_of("rebuilding") as progress:
        built: list[Rebuilt] = run_rebuild(
            root,
            plugins,
            engine,
            split_size=split_size or SPLIT_SIZE,
            progress=progress.update,
            check=check,
            follow_links=follows_links(),
        )
    print_rebuilt(root, built, as_json=as_json)

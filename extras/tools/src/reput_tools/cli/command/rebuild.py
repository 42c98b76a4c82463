"""``reput rebuild``: builds the files of plugins again from the log, on all cores."""

from __future__ import annotations

import click

from reput_tools.cli.kit.completion import complete_plugin
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.jsonkeys import below, json_option
from reput_tools.cli.kit.options import (
    jobs_option,
    path_argument,
    read_set_options,
    with_debug,
)

_EXAMPLES = """\b
Examples:
  reput rebuild STORE
  reput rebuild STORE consumequeue index --jobs 4
  reput rebuild STORE --check
"""
_JSON = {
    "path": "the store's directory",
    **below(
        "plugins[]",
        {
            "plugin": "the plugin",
            "message_count": "messages of the log",
            "size": "bytes of the log",
            "split_count": "parts that were read at the same time; 1 if one process read all",
            "seconds": "how long it took",
            "reason": "why one process read the whole log, or null",
            "differences[]": "null without `--check`; otherwise an object with `path`, relative to "
            "the store, `position` and `size` of the bytes that differ, `reason`, `kind` "
            "(`missing`, `extra`, `bytes`, or a word of the plugin) and others",
            "built_sizes": "an object with the bytes of each rebuilt file that differs, by path",
            "not_compared[]": "parts that do not follow from the log, with the reason",
            "compared_count": "files that were compared",
            "compared_size": "their bytes, without holes",
            "more_count": "differences that are not listed",
            "lost[]": "messages in damaged parts of the log that the files of the store name",
            "assumed[]": "options that the command assumed",
        },
    ),
}


@click.command(short_help="Rebuild the files of plugins, on all cores.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...", shell_complete=complete_plugin)
@jobs_option("the number of processors")
@click.option("--check", is_flag=True, help="Only compare with the existing files; change nothing.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="PLUGIN.OPTION=VALUE",
    help="An option of a plugin, for a store that has not recorded it; may be repeated.",
)
@json_option("one document at the end", _JSON)
@with_debug
def rebuild(
    path: str,
    plugins: tuple[str, ...],
    jobs: int | None,
    check: bool,
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Rebuild the files of each PLUGIN of the store at PATH from the log.

    Without PLUGIN it rebuilds all plugins whose files follow from the log alone. The existing files
    stay in use until the new ones are complete; no other process may have the store open for
    writing. The new files are identical to the files that the plugins write while messages arrive,
    and have the size of the old ones. If a crash interrupts their replacement, the plugins derive
    their files from the log at the next opening.

    With --check the command only compares the new files with the existing files, byte for byte.
    Exit code 1 means that some differ, and 7 that it could not compare any file. It ignores zeros
    at the end of a file. It matches index files by their headers, as RocketMQ names them by its
    clock. It does not compare what does not follow from the log: entries of messages whose log
    files were removed, delivery times in SCHEDULE_TOPIC_XXXX if the store does not use the plugin
    schedule, and bit maps. The output says so.

    A store that only RocketMQ has written does not say which options its plugins have. Give the
    options that differ from the defaults, such as the broker's messageDelayLevel: --set
    schedule.delay_levels="1s 2s 3s". The output lists the assumptions.
    """
    from reput_tools.cli.kit.progressbar import ProgressBar
    from reput_tools.cli.kit.rebuildresult import print_rebuilt
    from reput_tools.cli.kit.storeopening import follows_links
    from reput_tools.cli.kit.storeplugins import check_store, check_used, used_plugins
    from reput_tools.offline import rebuild as build

    root = check_store(path)
    if used_plugins(root) is not None:  # if only RocketMQ wrote the store, everything can be built
        for plugin in plugins:
            check_used(root, plugin)
    with ProgressBar("rebuilding", None, "bytes") as progress:
        built = build(
            root,
            plugins,
            jobs=jobs,
            progress=progress.update,
            check=check,
            follow_links=follows_links(),
            config=read_set_options(given),
        )
    print_rebuilt(root, built, as_json=as_json)
    if check and not built:
        raise click.exceptions.Exit(ExitCode.WARNED)  # nothing was compared

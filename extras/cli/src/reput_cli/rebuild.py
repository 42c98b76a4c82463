"""``reput rebuild``: builds the files of plugins anew from the log, on all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_cli.exitcodes import ExitCode
from reput_cli.options import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_rebuild.local import Rebuilt

__all__ = ["print_built", "print_rebuilt", "rebuild"]

_EXAMPLES = """\b
Examples:
  reput rebuild STORE
  reput rebuild STORE consumequeue index --jobs 4
  reput rebuild STORE --check
"""


@click.command(short_help="Build the files of plugins anew, on all cores.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugins", nargs=-1, metavar="[PLUGIN]...")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes; as many as processors when left out."
)
@click.option(
    "--check", is_flag=True, help="Compare with the files that are there, and change nothing."
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="PLUGIN.OPTION=VALUE",
    help="An option of a plugin, for a store that does not remember it; may be repeated.",
)
@json_option("one document at the end")
@with_debug
def rebuild(
    path: str,
    plugins: tuple[str, ...],
    jobs: int | None,
    check: bool,
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Build the files of each PLUGIN of the store at PATH anew from the log.

    Without PLUGIN: of all plugins that keep nothing but what follows from the log. The files that
    are there stay in use until the new ones are complete; no other process may have the store
    open for writing. What is built is, byte for byte, what the plugins write while messages
    arrive.

    With --check the new files are only compared with those that are there; exit code 1 says that
    some differ. What does not follow from the log, such as units of messages that it has lost with
    its head, is not compared, and said.

    A store that only RocketMQ has written does not say which options its plugins have. Give those
    that are not the usual ones, like the delays of the broker's messageDelayLevel:
    --set schedule.delay_levels="1s 2s 3s". What was assumed is told.
    """
    from reput_cli.opening import follows_links
    from reput_cli.progress import Progress
    from reput_cli.storeplugins import check_store, check_used, used_plugins
    from reput_rebuild.local import rebuild as build

    root = check_store(path)
    if used_plugins(root) is not None:  # of a store of RocketMQ's own everything can be built
        for plugin in plugins:
            check_used(root, plugin)
    with Progress("rebuilding", None, "bytes") as progress:
        built = build(
            root,
            plugins,
            jobs=jobs,
            progress=progress.update,
            check=check,
            follow_links=follows_links(),
            config=_sections(given),
        )
    print_rebuilt(root, built, as_json=as_json)


def _sections(given: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """Options by section; a value is JSON where it can be, else a text."""
    import json

    sections: dict[str, dict[str, object]] = {}
    for each in given:
        name, is_given, text = each.partition("=")
        section, _, option = name.partition(".")
        if not (section and option and is_given):
            raise click.BadParameter(f"{each!r} is not PLUGIN.OPTION=VALUE", param_hint="--set")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        sections.setdefault(section, {})[option] = value
    return sections


def print_rebuilt(root: str, built: list[Rebuilt], *, as_json: bool) -> None:
    """Print what came of a rebuild, or of a comparison; end with exit code 1 where files differ."""
    if as_json:
        _print_json(root, built)
    else:
        print_built(root, built)
    if any(each.differences for each in built):
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _print_json(root: str, built: list[Rebuilt]) -> None:
    import attrs

    from reput_cli.output import print_json

    print_json({"path": root, "plugins": [attrs.asdict(each) for each in built]})


def print_built(root: str, built: list[Rebuilt]) -> None:
    """Print what came of a rebuild, or of a comparison, as a table."""
    from reput_cli.escape import escape_text
    from reput_cli.output import Column, format_size, print_table
    from reput_cli.times import format_duration

    if not built:
        click.echo(f"{root}: none of its plugins derives files from the log")
        return
    rows = []
    for each in built:
        seconds = max(each.seconds, 1e-9)
        how = f"{each.split_count} splits" if each.split_count > 1 else "in one piece"
        if each.differences is not None:
            how += f", {_outcome(each)}"
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
    for each in built:
        for found in each.differences or ():
            click.echo(f"{escape_text(found.path)}, byte {found.position}: {found.reason}")
        for what in each.not_compared:
            click.echo(f"{each.plugin}, not compared: {escape_text(what)}")
        for what in each.assumed:
            click.echo(f"{each.plugin}, assumed: {escape_text(what)}")


def _outcome(compared: Rebuilt) -> str:
    if compared.differences:
        return "differs"
    return "the same in what can be compared" if compared.not_compared else "the same"

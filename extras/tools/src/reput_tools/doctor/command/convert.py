"""``reput convert``: makes a plain store of a directory with DLedger or RocksDB."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import (
    CheckedPath,
    follows_links,
    jobs_option,
    json_option,
    path_argument,
    with_debug,
)

if TYPE_CHECKING:
    from reput_tools.doctor.convert.convertrun import Converted

_EXAMPLES = """\b
Examples:
  reput convert STORE NEW
  reput convert STORE NEW --without-settings
  grep ^7F00000100002A9F0000000040000000 NEW/reput/moved-ids.tsv
"""
CONVERTED = {
    "path": "the directory that was read",
    "target": "directory of the new store",
    "found[]": "kinds of converted files: `dledger`, `rocksdb-queues`, `rocksdb-tables`",
    "message_count": "messages of the new store",
    "moved_count": "messages whose physical offset and id changed",
    "ids": "the file with their old and new ids",
    "start_offset": "physical offset at which the new log begins",
    "end_offset": "physical offset at which the new log ends",
    "lost[]": "damage of the source that the new store does not have, for people",
    "left[]": "files that were not copied, or plugins that failed: `file`, `kind`, `text`",
    "problems[]": "what is not sure about the source, for people",
    "rebuilt[].plugin": "a plugin whose files were built",
    "rebuilt[].message_count": "messages",
    "rebuilt[].seconds": "how long it took",
}
"""Names in the JSON document, and what they mean."""


@click.command(short_help="Build a plain store from one with DLedger or RocksDB.", epilog=_EXAMPLES)
@path_argument
@click.argument("new_directory", type=CheckedPath(file_okay=False))
@click.option(
    "--without-settings",
    is_flag=True,
    help="Leave out topics, groups and offsets that are in RocksDB.",
)
@jobs_option("chosen by the size of the log")
@json_option("one document at the end", CONVERTED)
@with_debug
def convert(
    path: str, new_directory: str, without_settings: bool, jobs: int | None, as_json: bool
) -> None:
    """Build a plain store in NEW_DIRECTORY from the directory at PATH, which does not change.

    PATH has a log of DLedger, alone or after a plain log, or queues or settings in RocksDB. The new
    store has all messages with their queue offsets, and the offsets of groups, delayed messages and
    open transactions. A broker with its default options, and reput, write it.

    Messages of DLedger get new physical offsets, and so new message ids. NEW_DIRECTORY/reput/
    moved-ids.tsv has the old and the new ones. Stop the broker first. Settings in RocksDB need the
    package rocksdict.

    Exit code 0: done; 7: done, but a file was left out, or it is not sure that the last messages
    are committed; 8: done, but the log is damaged, and messages there are lost.
    """
    run_convert(path, new_directory, without_settings=without_settings, jobs=jobs, as_json=as_json)


def run_convert(
    path: str,
    new_directory: str,
    *,
    without_settings: bool = False,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Convert a directory, print what was done, and end the command with its code."""
    from reput_tools.doctor.command.stepprogress import Steps
    from reput_tools.doctor.command.verify import quiet
    from reput_tools.doctor.convert.convertrun import convert as run

    with quiet(), Steps("") as steps:
        try:
            done = run(
                path,
                new_directory,
                without_settings=without_settings,
                jobs=jobs,
                follow_links=follows_links(),
                step=steps.step,
            )
        except ModuleNotFoundError as error:
            if error.name != "rocksdict":
                raise
            raise _missing() from None
    _show(done, as_json=as_json)


def _missing() -> click.ClickException:
    from reput.installhints import extra_needed
    from reput_tools.cli.kit import ExitCode, Failure

    text = extra_needed("a directory with settings in RocksDB", "rocksdict", "tools", "rocksdb")
    return Failure(f"{text}; --without-settings leaves them out", ExitCode.UNAVAILABLE)


def _show(done: Converted, *, as_json: bool) -> None:
    from reput_tools.cli.kit import print_json
    from reput_tools.doctor.findings import Severity

    if as_json:
        print_json(_document(done))
    else:
        _print(done)
    if done.lost:
        raise click.exceptions.Exit(Severity.LOSS.exit_code)
    if done.notices or done.problems:
        raise click.exceptions.Exit(Severity.WARNING.exit_code)


def _document(done: Converted) -> dict[str, Any]:
    import attrs

    return {
        "path": done.source,
        "target": done.target,
        "found": list(done.found),
        "message_count": done.message_count,
        "moved_count": done.moved_count,
        "ids": done.ids,
        "start_offset": done.start_offset,
        "end_offset": done.end_offset,
        "lost": list(done.lost),
        "left": [attrs.asdict(each) for each in done.notices],
        "problems": list(done.problems),
        "rebuilt": [
            {
                "plugin": each.plugin,
                "message_count": each.message_count,
                "seconds": each.seconds,
            }
            for each in done.rebuilt
        ],
    }


def _print(done: Converted) -> None:
    from reput_tools.cli.kit import (
        escape_text,
        format_count,
        format_size,
        print_facts,
        print_heading,
        styled,
    )

    print_heading(f"Store {escape_text(done.target)}", space=False)
    size = format_size(done.end_offset - done.start_offset)
    print_facts(
        [
            ("log", f"{format_count(done.message_count, 'message')}, {size}"),
            ("moved", f"{format_count(done.moved_count, 'message')}; {escape_text(done.ids)}"),
            ("converted", ", ".join(done.found)),
            ("rebuilt", ", ".join(each.plugin for each in done.rebuilt) or "nothing"),
        ]
    )
    notices = [f"{each.file}: {each.text}" for each in done.notices]
    for heading, lines in (
        ("Lost", done.lost),
        ("Look at these", [*done.problems, *notices]),
    ):
        if lines:
            print_heading(heading)
            for line in lines:
                click.echo(f"  {escape_text(line)}")
    click.echo()
    click.echo(
        styled(f"Done: {escape_text(done.target)} is a plain store. ", fg="green")
        + f"{escape_text(done.source)} is as it was."
    )
    click.echo(f"Check it with: reput verify {shlex.quote(done.target)}")

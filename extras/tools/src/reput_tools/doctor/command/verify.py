"""``reput verify``: checks everything that a store holds."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit import (
    CheckedPath,
    below,
    follows_links,
    jobs_option,
    json_option,
    path_argument,
    read_set_options,
    with_debug,
)

if TYPE_CHECKING:
    from reput_tools.doctor.findings import Report

_EXAMPLES = """\b
Examples:
  reput verify STORE
  reput verify STORE --deep --html report.html
  reput verify STORE --json | jq '.findings[] | {kind, file, position}'
"""
_JSON = {
    "path": "the store's directory",
    "healthy": "whether nothing worse than a notice was found",
    "worst": "the worst severity: `notice`, `warning`, `damage` or `loss`; null without findings",
    "verdict": "the result as a sentence",
    "not_covered": "the bytes that no checksum covers, as a sentence",
    "counts": "an object with the number of findings, by kind",
    **below(
        "findings[]",
        {
            "severity": "`notice`, `warning`, `damage` or `loss`; the worst findings come first",
            "kind": "a stable name such as `log.body-crc`; up to 1,000 of each kind are listed",
            "part": "`log`, `checkpoint`, `config`, `reput`, `store`, or a plugin",
            "file": "relative to the store's directory",
            "position": "byte of the file; null for the whole file",
            "size": "bytes that are wrong, or null",
            "physical_offset": "the position as an offset of the log, or null",
            "found": "the value found",
            "expected": "the value expected",
            "message_count": "messages that are affected; null if not known",
            "suspects[]": "files that contradict each other",
            "advice": "the next step",
            "messages[].topic": "the first affected messages; null for what is not known",
            "messages[].queue_id": "the queue",
            "messages[].queue_offset": "the place in the queue",
            "messages[].key": "a key",
            "messages[].physical_offset": "the place in the log",
        },
    ),
    "checked.log_bytes": "bytes of the log that were read",
    "checked.derived_bytes": "bytes of derived files, without holes",
    "checked.messages": "records of the log",
    "checked.fillers": "those of them that fill losses, and are not messages",
    "checked.files": "files",
    "checked.plugins[]": "plugins whose files were compared with the log",
    "checked.checksummed": "messages whose whole records have a checksum, which matched",
    "checked.has_sums": "whether the plugin `integrity` has a checksum of every record",
    "not_checked[].part": "a part that was not checked",
    "not_checked[].reason": "why",
    "seconds": "how long it took",
}


@click.command(short_help="Check every record, and every file derived from them.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--deep",
    is_flag=True,
    help="Also check bytes that no checksum covers, and decompress bodies.",
)
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=CheckedPath(dir_okay=False, writable=True),
    help="Also write the findings as one HTML page.",
)
@jobs_option("chosen by the size of the log")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="The number of findings to print; --json and --html have more.",
)
@click.option(
    "--scratch",
    metavar="DIR",
    type=CheckedPath(file_okay=False, exists=True),
    help="Where to build derived files for the comparison. Default: the system's directory for "
    "temporary files.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="PLUGIN.OPTION=VALUE",
    help="An option of a plugin, for a store that has not recorded it; may be repeated.",
)
@json_option("one document at the end", _JSON)
@with_debug
def verify(
    path: str,
    deep: bool,
    page: str | None,
    jobs: int | None,
    limit: int,
    scratch: str | None,
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check the store at PATH: every record, every derived file, config, and small files.

    The command lists all damage with file and position, the values found and expected, the affected
    messages, and the next step. It changes nothing in the store. If a process is writing the store,
    the command checks the log up to its end, but not the derived files.

    Exit code 0: healthy; 7: something needs attention; 1: damage that can be repaired from the
    log; 8: messages are lost.
    """
    from reput_tools.doctor.command.findingsprint import print_report
    from reput_tools.doctor.command.stepprogress import Steps
    from reput_tools.doctor.verification.verifyrun import verify as run

    with quiet(), Steps() as steps:
        report = run(
            path,
            deep=deep,
            jobs=jobs,
            progress=steps.update,
            follow_links=follows_links(),
            scratch=scratch,
            config=read_set_options(given),
        )
    if page is not None:
        _write_page(page, report)
    print_report(report, limit=limit, as_json=as_json)
    if page is not None and not as_json:
        click.echo(f"The page is in {page}.")
    if report.exit_code:
        raise click.exceptions.Exit(report.exit_code)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Show no warnings of the library, all of which come back as findings; all with --debug."""
    context = click.get_current_context().find_object(dict) or {}
    before = logging.root.manager.disable
    if not context.get("debug"):
        logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _write_page(path: str, report: Report) -> None:
    from reput_tools.cli.kit import ExitCode, Failure
    from reput_tools.doctor.command.findingspage import findings_page

    text = findings_page(report)
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        reason = f"{path}: the page cannot be written: {error.strerror or error}"
        raise Failure(f"{reason}; name another file", ExitCode.UNAVAILABLE) from error

"""``reput report``: what a store holds, and what in it waits, hangs or is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit import (
    CheckedPath,
    ExitCode,
    Failure,
    ProgressBar,
    follows_links,
    jobs_option,
    json_option,
    path_argument,
    print_json,
    read_time,
    warn,
    with_debug,
)

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import StoreReport

_EXAMPLES = """\b
Examples:
  reput report STORE
  reput report STORE --html report.html
  reput report STORE --since -1d --json | jq '.groups[] | select(.lag > 0)'
"""
_JSON = {
    "path": "the store's directory",
    "written_by": "`reput`, `rocketmq`, `rocketmq 5`, or `rocketmq 5.4`",
    "made_timestamp": "when the report was made",
    "seconds": "how long it took",
    "since_timestamp": "value of `--since`, or null",
    "until_timestamp": "value of `--until`, or null",
    "log": "an object with the extent of the log",
    "message_count": "messages",
    "size": "bytes of their records",
    "body_size": "bytes of their bodies",
    "first_timestamp": "store time of the first message, or null",
    "last_timestamp": "store time of the last message, or null",
    "topics[]": "messages and bytes of each topic, the largest first",
    "queues[]": "the same of each queue, and its offsets",
    "hours[]": "the same of each hour and topic",
    "sizes": "an object with the smallest, largest and usual sizes of records",
    "body_sizes[]": "number of bodies, by size",
    "ages[]": "number of messages, by age",
    "delays[]": "number of messages, by the time from born to stored",
    "groups[]": "lag of each consumer group; null if the store has no offsets of consumers",
    "delay_levels[]": "messages that wait in each delay level",
    "timer": "an object with the messages that wait for a time, or null",
    "transactions": "an object with the open transactions",
    "retries[]": "messages in retry and dead letter topics, by group",
    "plugins[]": "progress of each plugin",
    "damages[]": "damage of the log, as in `info --scan`; up to 1,000",
    "damage_count": "number of all damages",
    "damaged_size": "their bytes",
    "loss_count": "losses that the store has recorded",
    "disk": "an object with the bytes on disk, by part of the store",
    "problems[]": "a text for each part of the store that cannot be used",
    "notes[]": "what the report cannot know, and why",
    "concerns[].severity": "`notice`, `warning`, `damage` or `loss`; the worst come first",
    "concerns[].text": "what needs attention",
    "concerns[].advice": "the next step",
}


@click.command(
    short_help="Report what a store holds, and which messages wait in it.", epilog=_EXAMPLES
)
@path_argument
@click.option(
    "--html",
    "page_path",
    metavar="FILE",
    type=CheckedPath(dir_okay=False),
    help="Also write one HTML page with tables and plots; it needs no network.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=read_time,
    help="Count only messages stored at this time or later: -1h, a time, or @ and ms since the "
    "epoch.",
)
@click.option(
    "--until",
    metavar="TIME",
    callback=read_time,
    help="Count only messages stored at this time or earlier.",
)
@jobs_option("the number of processors")
@json_option("one document", _JSON)
@with_debug
def report(
    path: str,
    page_path: str | None,
    since: int | None,
    until: int | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    r"""Report the messages of the store at PATH, the lag of their readers, and damage.

    The report contains the number and size of messages by topic, by queue and by hour, and their
    ages. It also contains the lag of consumer groups, delayed messages, open transactions, retries,
    dead letters, the progress of plugins, and damage of the log. The command reads the whole log
    once, on all cores, and verifies every checksum. It needs no plugin and changes nothing, and
    another process may write the store meanwhile. The exit code is 1 if the log is damaged.
    """
    from reput_tools.doctor.command.verify import quiet
    from reput_tools.doctor.storereport.reportbuilder import make_report

    # Warnings of the log come back as problems, which the report shows at its beginning.
    with quiet(), ProgressBar("reading the log", None, "bytes") as progress:
        made = make_report(
            path,
            since=since,
            until=until,
            jobs=jobs,
            follow_links=follows_links(),
            progress=progress.update,
        )
    if as_json:
        for problem in made.problems:
            warn(problem)
    if page_path is not None:
        _write_page(made, page_path)
    if as_json:
        print_json(made.as_json())
    else:
        from reput_tools.doctor.storereport.view.printing import print_report

        print_report(made)
        if page_path is not None:
            click.echo(f"\nThe page is in {page_path}.")
    if made.damage_count:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _write_page(made: StoreReport, page_path: str) -> None:
    from reput_tools.doctor.storereport.view.page import report_page

    text = report_page(made)
    try:
        with open(page_path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = f"{page_path}: the page cannot be written: {error.strerror or error}"
        raise Failure(f"{reason}; name another file", ExitCode.UNAVAILABLE) from error

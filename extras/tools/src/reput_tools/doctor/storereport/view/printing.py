"""Prints a report in a terminal: what needs a look first, then totals, then tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from reput_tools.cli.kit import (
    escape_text,
    format_count,
    format_duration,
    format_size,
    format_timestamp,
    print_facts,
    print_heading,
    styled,
)
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.storereport.view.charts import hour_series, sparkline
from reput_tools.doctor.storereport.view.columnformat import Field, print_rows
from reput_tools.doctor.storereport.view.labels import age_label, size_label
from reput_tools.doctor.storereport.view.tablecolumns import (
    DAMAGES,
    GROUPS,
    LEVELS,
    OPEN_TRANSACTIONS,
    PLUGINS,
    RETRIES,
    TOPICS,
)

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import Bucket, Concern, StoreReport

_ROWS: Final = 15
"""Rows of a table; JSON and the page have all."""
_BAR: Final = 24
_COLOURS: Final = {
    Severity.LOSS: "red",
    Severity.DAMAGE: "red",
    Severity.WARNING: "yellow",
    Severity.NOTICE: "cyan",
}


def print_report(report: StoreReport) -> None:
    """Print a report."""
    print_heading(f"Store {report.path}", space=False)
    _print_concerns(report.concerns)
    print_heading("Totals")
    print_facts(_facts(report))
    _print_damages(report)
    _print_table("Topics", TOPICS, report.topics, report)
    _print_table("Consumer groups", GROUPS, report.groups or (), report)
    _print_table("Retries and dead letters", RETRIES, report.retries, report)
    _print_delays(report)
    _print_transactions(report)
    _print_table("Plugins", PLUGINS, report.plugins, report, len(report.plugins))
    _print_buckets(report)
    for note in report.notes:
        click.echo(f"\n{escape_text(note)}.")


def _print_concerns(concerns: Sequence[Concern]) -> None:
    if not concerns:
        click.echo(styled("Nothing needs a look.", fg="green"))
        return
    print_heading("What needs a look")
    for each in concerns:
        word = styled(f"{each.severity.word:8}", fg=_COLOURS[each.severity], bold=True)
        click.echo(f"  {word} {escape_text(each.text)}")
        click.echo(styled(f"           {escape_text(each.advice)}", dim=True))


def _facts(report: StoreReport) -> Iterator[tuple[str, str]]:
    log = report.log
    queues = format_count(len(report.queues), "queue")
    topics = format_count(len(report.topics), "topic")
    yield "messages", f"{format_count(report.message_count)} in {topics}, {queues}"
    bodies = f"{format_size(report.body_size)} of it bodies"
    yield "records", f"{format_size(report.size)}, {bodies}"
    times = format_timestamp(report.first_timestamp), format_timestamp(report.last_timestamp)
    yield "stored", f"{times[0]} to {times[1]} (UTC)"
    series = hour_series(report.hours)
    if len(series.counts) > 1:
        yield f"per {series.unit}", sparkline(series.counts)
    sizes = report.sizes
    quantiles = f"half up to {format_size(sizes.p50)}, 99 % up to {format_size(sizes.p99)}"
    largest = f"largest {format_size(sizes.largest)}"
    yield "sizes", f"body mean {format_size(sizes.mean)}, {quantiles}, {largest}"
    yield "log", _log_line(report)
    parts = sorted(report.disk.items(), key=lambda part: -part[1])[:4]
    yield "disk", ", ".join(f"{name} {format_size(size)}" for name, size in parts)
    if log.is_open:
        writer = "a process" if log.writer_pid is None else f"process {log.writer_pid}"
        yield "beside", f"{writer} has the store open; the report ends at {log.end_offset}"
    yield "read in", format_duration(report.seconds)


def _log_line(report: StoreReport) -> str:
    log = report.log
    files = f"{format_count(log.file_count, 'file')} of {format_size(log.file_size)}"
    text = f"physical offsets {log.start_offset} to {log.end_offset}, {files}"
    if log.read_from != log.start_offset:
        text += f"; read from {log.read_from} on"
    return text


# ---------------------------------------------------------------------- tables


def _print_table(
    title: str, fields: Sequence[Field], rows: Sequence[Any], report: StoreReport, most: int = _ROWS
) -> None:
    """Print at most ``most`` rows under a heading; nothing without rows."""
    if rows:
        print_heading(title)
        print_rows(fields, rows[:most], report)
        _print_rest(len(rows), most)


def _print_delays(report: StoreReport) -> None:
    _print_table("Delay levels", LEVELS, report.delay_levels, report, 2 * _ROWS)
    timer = report.timer
    if timer is not None:
        print_heading("Timer wheel")
        facts = [("waiting", f"{format_count(timer.waiting)}, {timer.overdue:,} overdue")]
        if timer.first_due_timestamp is not None:
            due = (
                format_timestamp(timer.first_due_timestamp),
                format_timestamp(timer.last_due_timestamp),
            )
            facts.append(("due", f"{due[0]} to {due[1]} (UTC)"))
        facts.append(("not on it yet", format_count(timer.not_on_wheel)))
        print_facts(facts)


def _print_transactions(report: StoreReport) -> None:
    found = report.transactions
    if not (found.half_count or found.prepared or found.open_count):
        return
    print_heading("Transactions")
    facts = [("half messages", f"{found.half_count:,}, open: {found.open_count:,}")]
    if found.prepared or found.rolled_back:
        text = f"prepared {found.prepared:,}, committed {found.committed:,}, "
        facts.append(("by their bits", f"{text}rolled back {found.rolled_back:,}"))
    print_facts(facts)
    if found.oldest:
        click.echo()
        print_rows(OPEN_TRANSACTIONS, found.oldest[:_ROWS], report)
        _print_rest(found.open_count)


def _print_buckets(report: StoreReport) -> None:
    if not report.message_count:
        return
    print_heading("Age of messages")
    print_facts((age_label(each), _bar(each, report)) for each in report.ages)
    print_heading("Size of bodies")
    print_facts((size_label(each), _bar(each, report)) for each in report.body_sizes)


def _print_damages(report: StoreReport) -> None:
    if report.damages:
        print_heading("Damage of the log")
        print_rows(DAMAGES, report.damages[:_ROWS], report)
        _print_rest(report.damage_count)


# ---------------------------------------------------------------------- cells


def _bar(bucket: Bucket, report: StoreReport) -> str:
    part = bucket.message_count / report.message_count
    return f"{'█' * round(part * _BAR):{_BAR}} {bucket.message_count:,}"


def _print_rest(count: int, shown: int = _ROWS) -> None:
    if count > shown:
        more = f"… and {count - shown:,} more; --json and --html have more of them"
        click.echo(styled(more, dim=True))

"""Prints a report in a terminal: what needs a look first, then totals, then tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from reput_cli.kit import (
    Column,
    escape_text,
    format_count,
    format_duration,
    format_size,
    format_timestamp,
    print_facts,
    print_heading,
    print_table,
    styled,
)
from reput_doctor.findings import Severity
from reput_doctor.reporting.concerns import format_age
from reput_doctor.reporting.showing.charts import hour_series, sparkline
from reput_doctor.reporting.showing.labels import age_label, first_message, size_label

if TYPE_CHECKING:
    from reput_doctor.reporting.values import Bucket, Concern, StoreReport

__all__ = ["print_report"]

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
    _print_topics(report)
    _print_groups(report)
    _print_retries(report)
    _print_delays(report)
    _print_transactions(report)
    _print_plugins(report)
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


def _print_topics(report: StoreReport) -> None:
    if not report.topics:
        return
    print_heading("Topics")
    columns = [
        Column("TOPIC", shrink=True),
        Column("KIND"),
        Column("QUEUES", right=True),
        Column("MESSAGES", right=True),
        Column("BYTES", right=True),
        Column("BODY MEAN", right=True),
        Column("OLDEST", right=True),
        Column("NEWEST", right=True),
    ]
    rows = [
        (
            each.topic,
            each.kind,
            format_count(each.queue_count),
            format_count(each.message_count),
            format_size(each.size),
            format_size(each.sizes.mean),
            _ago(report, each.first_timestamp),
            _ago(report, each.last_timestamp),
        )
        for each in report.topics[:_ROWS]
    ]
    print_table(columns, rows)
    _print_rest(len(report.topics))


def _print_groups(report: StoreReport) -> None:
    if not report.groups:
        return
    print_heading("Consumer groups")
    columns = [
        Column("GROUP", shrink=True),
        Column("TOPIC", shrink=True),
        Column("QUEUES", right=True),
        Column("TO READ", right=True),
        Column("OLDEST", right=True),
        Column("REMARK", shrink=True),
    ]
    rows = []
    for each in report.groups[:_ROWS]:
        remarks = [
            f"{format_count(count, 'queue')} {text}"
            for count, text in (
                (each.ahead, "read beyond the end"),
                (each.unknown, "without messages"),
                (each.uncommitted, "never read"),
            )
            if count
        ]
        rows.append(
            (
                each.group,
                each.topic,
                format_count(len(each.queues)),
                format_count(each.lag),
                _ago(report, each.waiting_since_timestamp),
                ", ".join(remarks),
            )
        )
    print_table(columns, rows)
    _print_rest(len(report.groups))


def _print_retries(report: StoreReport) -> None:
    if not report.retries:
        return
    print_heading("Retries and dead letters")
    columns = [
        Column("GROUP", shrink=True),
        Column("RETRIES", right=True),
        Column("WAITING", right=True),
        Column("DEAD LETTERS", right=True),
        Column("OLDEST", right=True),
        Column("NEWEST", right=True),
    ]
    rows = [
        (
            each.group,
            format_count(each.retries),
            _count(each.retries_waiting),
            format_count(each.dead_letters),
            _ago(report, each.oldest_dead_letter_timestamp),
            _ago(report, each.newest_dead_letter_timestamp),
        )
        for each in report.retries[:_ROWS]
    ]
    print_table(columns, rows)
    _print_rest(len(report.retries))


def _print_delays(report: StoreReport) -> None:
    if report.delay_levels:
        print_heading("Delay levels")
        columns = [
            Column("LEVEL", right=True),
            Column("WAITING", right=True),
            Column("PARKED", right=True),
            Column("OLDEST", right=True),
        ]
        rows = [
            (
                str(each.level),
                _count(each.waiting),
                format_count(each.parked),
                _ago(report, each.waiting_since_timestamp),
            )
            for each in report.delay_levels[: 2 * _ROWS]
        ]
        print_table(columns, rows)
        _print_rest(len(report.delay_levels), 2 * _ROWS)
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
        columns = [
            Column("OPEN SINCE"),
            Column("TOPIC", shrink=True),
            Column("GROUP", shrink=True),
            Column("KEY", shrink=True),
            Column("PHYSICAL OFFSET", right=True),
        ]
        rows = [
            (
                format_timestamp(each.store_timestamp),
                each.topic or "-",
                each.group or "-",
                each.key or "-",
                str(each.physical_offset),
            )
            for each in found.oldest[:_ROWS]
        ]
        print_table(columns, rows)
        _print_rest(found.open_count)


def _print_plugins(report: StoreReport) -> None:
    if not report.plugins:
        return
    print_heading("Plugins")
    columns = [
        Column("PLUGIN"),
        Column("VERSION"),
        Column("STATE"),
        Column("DISPATCHED TO", right=True),
        Column("BEHIND BY", right=True),
        Column("DEAD LETTERS", right=True),
    ]
    rows = [
        (
            each.plugin,
            each.installed or "not installed",
            each.state,
            "-" if each.dispatched_to is None else str(each.dispatched_to),
            "-" if not each.behind else format_size(each.behind),
            format_count(each.dead_letters),
        )
        for each in report.plugins
    ]
    print_table(columns, rows)


def _print_buckets(report: StoreReport) -> None:
    if not report.message_count:
        return
    print_heading("Age of messages")
    print_facts((age_label(each), _bar(each, report)) for each in report.ages)
    print_heading("Size of bodies")
    print_facts((size_label(each), _bar(each, report)) for each in report.body_sizes)


def _print_damages(report: StoreReport) -> None:
    if not report.damages:
        return
    print_heading("Damage of the log")
    columns = [
        Column("FILE"),
        Column("POSITION", right=True),
        Column("SIZE", right=True),
        Column("REASON"),
        Column("MESSAGE", shrink=True),
    ]
    rows = [
        (
            str(each["file"]),
            str(each["position"]),
            str(each["size"]),
            str(each["reason"]),
            first_message(each) or "-",
        )
        for each in report.damages[:_ROWS]
    ]
    print_table(columns, rows)
    _print_rest(report.damage_count)


# ---------------------------------------------------------------------- cells


def _bar(bucket: Bucket, report: StoreReport) -> str:
    part = bucket.message_count / report.message_count
    return f"{'█' * round(part * _BAR):{_BAR}} {bucket.message_count:,}"


def _ago(report: StoreReport, timestamp: int | None) -> str:
    if timestamp is None:
        return "-"
    age = (report.made_timestamp - timestamp) / 1000
    return format_age(age) if age >= 0 else format_timestamp(timestamp)


def _count(count: int | None) -> str:
    return "-" if count is None else format_count(count)


def _print_rest(count: int, shown: int = _ROWS) -> None:
    if count > shown:
        more = f"… and {count - shown:,} more; --json and --html have more of them"
        click.echo(styled(more, dim=True))

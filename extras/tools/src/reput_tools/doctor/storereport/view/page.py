"""The page of a report: what needs a look, totals, time series, bars and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from reput_tools.cli.kit import format_count, format_duration, format_size, format_timestamp
from reput_tools.doctor.html import (
    SERIES_MAX,
    bars,
    columns,
    facts,
    note,
    page,
    section,
    subheading,
    tiles,
    verdicts,
)
from reput_tools.doctor.storereport.view.charts import hour_series
from reput_tools.doctor.storereport.view.columnformat import moment, rows_table
from reput_tools.doctor.storereport.view.labels import age_label, delay_label, size_label
from reput_tools.doctor.storereport.view.tablecolumns import (
    DAMAGES,
    GROUPS,
    LEVELS,
    OPEN_TRANSACTIONS,
    PLUGINS,
    QUEUES,
    RETRIES,
    TOPICS,
)

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import DueCount, StoreReport, TimerWheel

_BARS: Final = 12
_COLUMNS: Final = 120
_HOUR_MS: Final = 3_600_000


def report_page(report: StoreReport) -> str:
    """Return the page as text; it loads nothing, and every name in it is escaped."""
    times = format_timestamp(report.first_timestamp), format_timestamp(report.last_timestamp)
    subtitle = f"messages stored {times[0]} to {times[1]} (UTC)"
    if not report.message_count:
        subtitle = "no messages"
    made = format_timestamp(report.made_timestamp)
    foot = f"reput report, {made} (UTC), read in {format_duration(report.seconds)}."
    return page(f"Store {report.path}", subtitle, filter(None, _sections(report)), foot)


def _sections(report: StoreReport) -> Iterator[str]:
    found = [(each.severity.word, each.text, each.advice) for each in report.concerns]
    yield section("What needs a look", verdicts(found or [("good", "Nothing needs a look.", "")]))
    yield _totals(report)
    yield section("Damage of the log", rows_table(DAMAGES, report.damages, report))
    yield _over_time(report)
    rows = [(each.topic, each.size) for each in report.topics[:_BARS]]
    shown = [format_size(size) for _, size in rows]
    yield section("Topics by bytes", bars(rows, shown), rows_table(TOPICS, report.topics, report))
    groups = report.groups or ()
    behind = [(f"{each.group} · {each.topic}", each.lag) for each in groups if each.lag]
    yield section(
        "Consumer groups: messages to read",
        bars(behind[:_BARS]),
        rows_table(GROUPS, groups, report),
    )
    yield section("Retries and dead letters", rows_table(RETRIES, report.retries, report))
    yield section(
        "Delayed messages", rows_table(LEVELS, report.delay_levels, report), _wheel(report.timer)
    )
    yield _transactions(report)
    yield _sizes_and_ages(report)
    yield section("Queues", rows_table(QUEUES, report.queues, report))
    yield section("Plugins", rows_table(PLUGINS, report.plugins, report))
    parts = sorted(report.disk.items(), key=lambda part: -part[1])[:_BARS]
    yield section("Disk", bars(parts, [format_size(size) for _, size in parts]))
    yield section("What this report does not know", *(note(each) for each in report.notes))


def _totals(report: StoreReport) -> str:
    lag = None if report.groups is None else sum(each.lag for each in report.groups)
    pairs = [
        ("messages", format_count(report.message_count)),
        ("bytes of records", format_size(report.size)),
        ("topics", format_count(len(report.topics))),
        ("queues", format_count(len(report.queues))),
        ("messages to read, all groups", "–" if lag is None else format_count(lag)),
        ("open transactions", format_count(report.transactions.open_count)),
        ("dead letters", format_count(sum(each.dead_letters for each in report.retries))),
        ("damaged places", format_count(report.damage_count)),
    ]
    return section("Totals", tiles(pairs), facts(_lines(report)))


def _lines(report: StoreReport) -> Iterator[tuple[str, str]]:
    log = report.log
    files = f"{format_count(log.file_count, 'file')} of {format_size(log.file_size)}"
    yield "log", f"physical offsets {log.start_offset} to {log.end_offset}, {files}"
    if log.read_from != log.start_offset:
        yield "read", f"from physical offset {log.read_from} on"
    if report.since_timestamp is not None or report.until_timestamp is not None:
        since = (
            "the first"
            if report.since_timestamp is None
            else format_timestamp(report.since_timestamp)
        )
        until = (
            "the last"
            if report.until_timestamp is None
            else format_timestamp(report.until_timestamp)
        )
        yield "counted", f"messages stored from {since} to {until}"
    if log.is_open:
        writer = "a process" if log.writer_pid is None else f"process {log.writer_pid}"
        yield "beside", f"{writer} had the store open; the report ends at {log.end_offset}"


def _over_time(report: StoreReport) -> str:
    series = hour_series(report.hours, columns=_COLUMNS, topics=SERIES_MAX)
    if not series.counts:
        return ""
    labels = [moment(series.start + place * series.step) for place in range(len(series.counts))]
    plot = columns(
        series.counts,
        list(zip(series.topics, series.by_topic, strict=True)),
        labels=labels,
        title=f"messages per {series.unit}",
    )
    outside = ""
    if series.outside:
        count = format_count(series.outside, "message")
        outside = f"{count} with store times far from the others' are not drawn"
    return section(f"Messages per {series.unit}", plot, note(outside))


def _wheel(timer: TimerWheel | None) -> str:
    if timer is None:
        return ""
    lines = [
        ("waiting on the wheel", f"{timer.waiting:,}, {timer.overdue:,} of them overdue"),
        ("not on it yet", format_count(timer.not_on_wheel)),
    ]
    return subheading("Timer wheel") + facts(lines) + _due(timer.by_hour)


def _due(by_hour: Sequence[DueCount]) -> str:
    if not by_hour:
        return ""
    first, last = by_hour[0].timestamp, by_hour[-1].timestamp
    hours = (last - first) // _HOUR_MS + 1
    step = -(-hours // _COLUMNS) * _HOUR_MS
    totals = [0] * ((last - first) // step + 1)
    for each in by_hour:
        totals[(each.timestamp - first) // step] += each.message_count
    labels = [moment(first + place * step) for place in range(len(totals))]
    return columns(totals, labels=labels, title="messages by the time at which they fall due")


def _transactions(report: StoreReport) -> str:
    found = report.transactions
    if not (found.half_count or found.prepared or found.open_count):
        return ""
    lines = [
        ("half messages in the log", f"{found.half_count:,}"),
        ("open", f"{found.open_count:,}"),
    ]
    if found.prepared or found.rolled_back:
        text = f"prepared {found.prepared:,}, committed {found.committed:,}, "
        lines.append(("by their bits", f"{text}rolled back {found.rolled_back:,}"))
    return section(
        "Transactions", facts(lines), rows_table(OPEN_TRANSACTIONS, found.oldest, report)
    )


def _sizes_and_ages(report: StoreReport) -> str:
    if not report.message_count:
        return ""
    return section(
        "Sizes and ages",
        subheading("Bodies by size"),
        bars([(size_label(each), each.message_count) for each in report.body_sizes]),
        subheading("Messages by age"),
        bars([(age_label(each), each.message_count) for each in report.ages]),
        subheading("From born to stored"),
        bars([(delay_label(each), each.message_count) for each in report.delays]),
    )

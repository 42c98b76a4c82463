"""Turns outcomes into rows, and rows into tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from benchmarks.runner import Outcome
from benchmarks.sheet import Sheet, print_sheet, quantity, time_text
from benchmarks.tables import TABLES


@attrs.frozen(kw_only=True)
class Line:
    """One line of a table: all rounds of one measurement."""

    table: str
    case: str
    label: str
    body_size: int
    unit: str
    count: int
    rounds: int
    rate: float
    """Median of the rounds, per second; 0 if a rate means nothing."""
    rate_min: float
    rate_max: float
    bytes_per_second: float
    cpu_per_item: float
    """Processor time of all threads per message, seconds, median."""
    latencies: dict[str, Any] | None
    """Medians of the rounds' percentiles; the highest maximum. Microseconds."""
    peak_memory: int | None
    private_memory: int | None
    ratio: float | None
    """Rate divided by that of the reput row of this table and body size."""
    facts: dict[str, Any]


def summarise(outcomes: Sequence[Outcome]) -> list[Line]:
    """Return one row for each label of each table, and for each engine if there are several.

    With several engines the rows of the first one are what the others are compared to.
    """
    engines = list(dict.fromkeys(outcome.engine for outcome in outcomes if outcome.engine))
    several = len(engines) > 1
    found: dict[tuple[str, int, str], list[tuple[Outcome, dict[str, Any]]]] = {}
    for outcome in outcomes:
        for measured in outcome.measurements:
            label = measured["label"]
            if several and outcome.engine:
                label = f"{label}, {outcome.engine}"
            key = (outcome.case.table.title, outcome.case.body_size, label)
            found.setdefault(key, []).append((outcome, measured))
    compared = {table.title for table in TABLES if table.compares}
    baselines = {
        key[:2]: _median_rate(results)
        for key, results in found.items()
        if results[0][1]["baseline"]
        and key[0] in compared
        and not (several and results[0][0].engine != engines[0])
    }
    order = {table.title: number for number, table in enumerate(TABLES)}
    rows = [_row(key, results, baselines.get(key[:2])) for key, results in found.items()]
    return sorted(rows, key=lambda row: (order[row.table], row.body_size))


def _row(
    key: tuple[str, int, str],
    results: list[tuple[Outcome, dict[str, Any]]],
    baseline: float | None,
) -> Line:
    table, body_size, label = key
    outcome, first = results[0]
    rates = [_rate(measured) for _, measured in results]
    rate = statistics.median(rates)
    return Line(
        table=table,
        case=outcome.case.name,
        label=label,
        body_size=body_size,
        unit=first["unit"],
        count=first["count"],
        rounds=len(results),
        rate=rate,
        rate_min=min(rates),
        rate_max=max(rates),
        bytes_per_second=rate * first["size"] / first["count"] if first["count"] else 0.0,
        cpu_per_item=statistics.median(
            measured["cpu_seconds"] / max(measured["count"], 1) for _, measured in results
        ),
        latencies=_latencies([measured["latencies"] for _, measured in results]),
        peak_memory=_highest(outcome.peak_memory for outcome, _ in results),
        private_memory=_highest(outcome.private_memory for outcome, _ in results),
        ratio=rate / baseline if baseline else None,
        facts=first["facts"],
    )


def _rate(measured: dict[str, Any]) -> float:
    if measured["unit"] == "waits" or not measured["seconds"]:
        return 0.0
    return float(measured["count"] / measured["seconds"])


def _median_rate(results: list[tuple[Outcome, dict[str, Any]]]) -> float:
    return statistics.median(_rate(measured) for _, measured in results)


def _latencies(rounds: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [latencies for latencies in rounds if latencies is not None]
    if not known:
        return None
    return {
        "call": known[0]["call"],
        "count": sum(latencies["count"] for latencies in known),
        "p50": statistics.median(latencies["p50"] for latencies in known),
        "p99": statistics.median(latencies["p99"] for latencies in known),
        "max": max(latencies["max"] for latencies in known),
    }


def _highest(sizes: Iterable[int | None]) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


# --------------------------------------------------------------------------- text

_COUNTED = ("messages", "items", "calls")
"""Units of which a row shows the processor time."""
_HEADINGS = (
    "store",
    "count",
    "per second",
    "min – max",
    "MB/s",
    "CPU µs",
    "p50",
    "p99",
    "max",
    "peak MB",
    "private",
    "× reput",
    "",
)


def print_tables(rows: Sequence[Line], outcomes: Sequence[Outcome]) -> None:
    """Print every table that has rows, then what was skipped and what failed."""
    for sheet in _sheets(rows):
        print_sheet(sheet)
    for word, reasons in (
        ("skipped", [(outcome.skipped, outcome.case.name) for outcome in outcomes]),
        ("FAILED", [(outcome.failed, outcome.case.name) for outcome in outcomes]),
    ):
        names_by_reason: dict[str, list[str]] = {}
        for reason, name in reasons:
            if reason is not None:
                names_by_reason.setdefault(reason, []).append(name)
        for reason, names in names_by_reason.items():
            print(f"{word} ({reason}): {', '.join(names)}")
    ran_with = dict.fromkeys(outcome.ran_with for outcome in outcomes if outcome.ran_with)
    if ran_with:
        print(f"engine of reput: {'; '.join(map(str, ran_with))}")
    print(
        "Rates are medians of the rounds. CPU: processor time of all threads per message. "
        "Latencies are of single calls.\nPeak memory counts pages of mapped files; private does "
        "not. Compare within one run only."
    )


def markdown(rows: Sequence[Line], headline: str) -> str:
    """Return all tables as the text of a page."""
    parts = [headline.replace("\n", "; "), ""]
    for sheet in _sheets(rows):
        parts += [f"### {sheet.title}", "", *sheet.markdown(), ""]
        parts += [f"{sheet.caption}.", ""] if sheet.caption else []
    return "\n".join(parts)


def _sheets(rows: Sequence[Line]) -> Iterator[Sheet]:
    for table in TABLES:
        for body_size in sorted({row.body_size for row in rows if row.table == table.title}):
            title = table.title
            if body_size:
                title += f" · bodies of {body_size:,} B"
            cells = [
                _cells(row)
                for row in rows
                if row.table == table.title and row.body_size == body_size
            ]
            used = [column for column in range(len(_HEADINGS)) if any(row[column] for row in cells)]
            headings = [_HEADINGS[column] for column in used]
            notes = [f"MB/s count {table.bytes_of}"] if "MB/s" in headings else []
            if table.note:
                notes.append(table.note)
            yield Sheet(
                title,
                "; ".join(notes),
                headings,
                [[row[column] for column in used] for row in cells],
            )


def _cells(row: Line) -> tuple[str, ...]:
    latencies = row.latencies
    return (
        row.label,
        f"{row.count:,}",
        quantity(row.rate) if row.rate else "",
        _range(row),
        f"{row.bytes_per_second / 1e6:,.0f}" if row.bytes_per_second >= 5e5 else "",
        f"{row.cpu_per_item * 1e6:,.2f}" if row.unit in _COUNTED and row.cpu_per_item else "",
        time_text(latencies["p50"]) if latencies else "",
        time_text(latencies["p99"]) if latencies else "",
        time_text(latencies["max"]) if latencies else "",
        f"{row.peak_memory / 1e6:,.0f}" if row.peak_memory else "",
        f"{row.private_memory / 1e6:,.0f}" if row.private_memory else "",
        f"{row.ratio:.2f}" if row.ratio else "",
        ", ".join(f"{name} {value}" for name, value in row.facts.items()),
    )


def _range(row: Line) -> str:
    if row.rounds < 2 or not row.rate:
        return ""
    return f"{quantity(row.rate_min)} – {quantity(row.rate_max)}"

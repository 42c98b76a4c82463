"""Turns the outcomes of the rounds into the table: medians, ratios, and what was reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from benchmarks.java.rows import JAVA_4, JAVA_5, NATIVE, PYTHON, Row
from benchmarks.runner import Outcome
from benchmarks.sheet import Sheet, print_sheet, quantity, time_text

_LESS_IS_BETTER = ("seconds", "memory", "processor")


@attrs.frozen(kw_only=True)
class Line:
    """One row, measured."""

    row: Row
    work: str
    values: Mapping[str, list[float]]
    """By the name of the contender, one for each round, in the unit of the row."""
    record_size: float
    """Mean bytes of a record in the log; 0 where not known."""

    def value(self, name: str) -> float | None:
        """Return the median of the rounds; None without a figure."""
        found = self.values.get(name)
        return statistics.median(found) if found else None

    def ratio(self, name: str, other: str) -> float | None:
        """Return how many times as good ``name`` is as ``other``; None where one is missing."""
        mine, theirs = self.value(name), self.value(other)
        if not mine or not theirs:
            return None
        return theirs / mine if self.row.unit in _LESS_IS_BETTER else mine / theirs

    def reached(self, name: str) -> str:
        """Return ``yes``, ``no``, ``stretch`` or, where something is missing, nothing."""
        target = self.row.target
        found = self.value(name)
        if found is None or not str(target):
            return ""
        held = [self._times(name, other, times) for other, times in target.times.items()]
        held.append(found >= target.rate)
        if target.bytes_rate:
            held.append(found * self.record_size >= target.bytes_rate if self.record_size else None)
        if False in held:
            return "no"
        if None in held:
            return ""
        further = [self._times(name, other, times) for other, times in target.stretch.items()]
        return "stretch" if further and all(further) else "yes"

    def _times(self, name: str, other: str, times: float) -> bool | None:
        ratio = self.ratio(name, other)
        return None if ratio is None else ratio >= times


def lines_of(
    rows: Sequence[Row],
    results: Mapping[tuple[str, str], Sequence[Outcome]],
    *,
    log_size: int,
    scale: float,
) -> list[Line]:
    """Return a line for each row.

    Args:
        rows: the rows of the table.
        results: outcomes by the names of job and contender.
        log_size: bytes of the large log.
        scale: 1 in a full run.
    """
    names = list(dict.fromkeys(name for _, name in results))
    lines = []
    for row in rows:
        found = {name: results.get((row.job.name, name), ()) for name in names}
        values = {
            name: [value for value in (_value(row, one) for one in outcomes) if value is not None]
            for name, outcomes in found.items()
        }
        sizes = [
            measured["size"] / measured["count"]
            for outcomes in found.values()
            for outcome in outcomes
            for measured in outcome.measurements
            if row.job.case.big_log and measured["size"] and measured["count"]
        ]
        size = _size_text(log_size // row.job.case.log_part)
        lines.append(
            Line(
                row=row,
                work=row.work.format(size=size, count=f"{row.job.messages(scale):,}"),
                values=values,
                record_size=sizes[0] if sizes else 0.0,
            )
        )
    return lines


def show(lines: Sequence[Line], names: Sequence[str]) -> None:
    """Print the table."""
    print_sheet(_sheet(lines, names))


def markdown(lines: Sequence[Line], names: Sequence[str]) -> str:
    """Return the table as a page has it."""
    return "\n".join(_sheet(lines, names).markdown()) + "\n"


def as_json(
    lines: Sequence[Line], results: Mapping[tuple[str, str], Sequence[Outcome]]
) -> dict[str, Any]:
    """Return rows and rounds as plain values."""
    return {
        "rows": [
            {
                "name": line.row.name,
                "work": line.work,
                "unit": line.row.unit,
                "medians": {name: line.value(name) for name in line.values},
                "values": dict(line.values),
                "times": {
                    f"{name} / {other}": line.ratio(name, other)
                    for name in (NATIVE, PYTHON)
                    for other in (JAVA_4, JAVA_5)
                },
                "target": str(line.row.target),
                "reached": line.reached(_subject(list(line.values))),
            }
            for line in lines
        ],
        "rounds": [
            {
                "job": job,
                "contender": name,
                "round": outcome.round,
                "ran_with": outcome.ran_with,
                "peak_memory": outcome.peak_memory,
                "private_memory": outcome.private_memory,
                "skipped": outcome.skipped,
                "failed": outcome.failed,
                "measurements": outcome.measurements,
            }
            for (job, name), outcomes in results.items()
            for outcome in outcomes
        ],
    }


# --------------------------------------------------------------------------- text


def _subject(names: Sequence[str]) -> str:
    """Return whose ratios are shown."""
    return NATIVE if NATIVE in names else PYTHON


def _sheet(lines: Sequence[Line], names: Sequence[str]) -> Sheet:
    subject = _subject(names)
    others = [name for name in (JAVA_4, JAVA_5) if name in names]
    ratios = [f"{subject} / {name.removeprefix('Java ')}" for name in others]
    rounds = max((len(found) for line in lines for found in line.values.values()), default=0)
    return Sheet(
        "Beside RocketMQ's own store",
        f"A second, unless a unit is named; medians of {rounds} round(s). "
        f"A ratio above 1: {subject} is better.",
        ["work", *names, *ratios, "target", "reached"],
        [
            [
                line.work,
                *(_cell(line, name) for name in names),
                *(_ratio_text(line.ratio(subject, other)) for other in others),
                str(line.row.target),
                line.reached(subject),
            ]
            for line in lines
        ],
    )


def _cell(line: Line, name: str) -> str:
    value = line.value(name)
    if value is None:
        return "–"
    if line.row.unit == "seconds":
        return time_text(value * 1e6)
    if line.row.unit == "memory":
        return f"{value / 1e6:,.0f} MB"
    if line.row.unit == "processor":
        return f"{value:.2%}"
    if line.row.target.bytes_rate and line.record_size:
        return f"{quantity(value)}, {value * line.record_size / 1e9:.2f} GB/s"
    return quantity(value)


def _ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def _size_text(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _value(row: Row, outcome: Outcome) -> float | None:
    """Return what ``row`` shows of one outcome; None if it was not measured."""
    measured = next((one for one in outcome.measurements if one["label"] == row.label), None)
    if measured is None or not measured["seconds"]:
        return None
    if row.unit == "memory":
        return outcome.private_memory
    if row.unit == "seconds":
        return float(measured["seconds"])
    share = "cpu_seconds" if row.unit == "processor" else "count"
    return float(measured[share] / measured["seconds"])

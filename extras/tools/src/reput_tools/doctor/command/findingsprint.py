"""Prints a report of findings: for people a block for each finding, for programs one document."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from reput_tools.cli.kit import (
    escape_text,
    format_count,
    format_duration,
    format_size,
    print_facts,
    print_heading,
    print_json,
    print_text,
    styled,
)
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.verdict import verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput_tools.doctor.findings import Finding, Report

_NAMED: Final = 3  # messages of a finding that are named
_STYLES: Final[dict[Severity, dict[str, Any]]] = {
    Severity.NOTICE: {"fg": "cyan"},
    Severity.WARNING: {"fg": "yellow"},
    Severity.DAMAGE: {"fg": "red"},
    Severity.LOSS: {"fg": "red", "bold": True},
}


def print_report(report: Report, *, limit: int, as_json: bool) -> None:
    """Print a report.

    Args:
        report: the findings.
        limit: findings that are printed for people.
        as_json: whether to print all of it, for programs.
    """
    if as_json:
        print_json({**report.as_json(), "verdict": verdict_of(report)})
        return
    print_heading(f"Store {report.path}", space=False)
    print_facts(_facts(report))
    if report.findings and limit:
        print_heading("Findings")
        for finding in report.findings[:limit]:
            _print_finding(finding)
    total = sum(report.counts.values())
    if total > min(limit, len(report.findings)):
        more = total - min(limit, len(report.findings))
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.counts.items()))
        click.echo(f"\n{format_count(more, 'finding')} more, {total:,} in all: {kinds}")
        click.echo("--limit shows more of them, --json and --html up to 1,000 of each kind")
    if report.not_checked:
        print_heading("Not checked")
        print_facts([(each.part, each.reason) for each in report.not_checked])
    click.echo()
    style = {"fg": "green"} if report.is_healthy else _STYLES[report.worst or Severity.NOTICE]
    print_text(verdict_of(report), **style)
    print_text(report.not_covered)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    checked, seconds = report.checked, max(report.seconds, 1e-9)
    messages = format_count(checked.messages - checked.fillers, "message")
    yield "log", f"{messages}, {format_size(checked.log_bytes)}"
    if checked.plugins:
        yield "derived", f"{', '.join(checked.plugins)}: {format_size(checked.derived_bytes)}"
    yield "files", format_count(checked.files)
    rate = format_size(round(checked.log_bytes / seconds))
    yield "time", f"{format_duration(report.seconds)}, {rate}/s of the log"


def _print_finding(finding: Finding) -> None:
    severity = styled(f"{finding.severity.word:8}", **_STYLES[finding.severity])
    place = escape_text(finding.file)
    if finding.position is not None:
        place += f", byte {finding.position}"
    if finding.size:
        place += f", {format_count(finding.size, 'byte')}"
    click.echo(f"{severity} {styled(finding.kind, bold=sys.stdout.isatty())}  {place}")
    facts = [("found", finding.found), ("expected", finding.expected)]
    if touched := _touched(finding):
        facts.append(("touches", touched))
    print_facts([*facts, ("do", finding.advice)], indent=9)


def _touched(finding: Finding) -> str:
    names = [
        f"the message at {each.physical_offset}" if each.topic is None else str(each)
        for each in finding.messages[:_NAMED]
    ]
    count = finding.message_count
    more = 0 if count is None else count - len(names)
    if not names:
        return "" if not count else format_count(count, "message")
    return ", ".join(names) + (f", and {more:,} more" if more > 0 else "")

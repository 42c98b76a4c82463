"""The findings of a check as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput_tools.cli.kit import format_count, format_duration, format_size
from reput_tools.doctor.html import facts, page, section, tiles, verdicts
from reput_tools.doctor.verdict import verdict_of

if TYPE_CHECKING:
    from reput_tools.doctor.findings import Finding, Report

_NAMED: Final = 5  # messages of a finding that are named


def findings_page(report: Report) -> str:
    """Return the page; it loads nothing from elsewhere, and every name in it is escaped."""
    foot = f"reput verify, {format_duration(report.seconds)}."
    plugins = ", ".join(report.checked.plugins) or "no plugin"
    subtitle = f"every record, and the files of {plugins}"
    return page(f"Store {report.path}", subtitle, filter(None, _sections(report)), foot)


def _sections(report: Report) -> Iterator[str]:
    word = "good" if report.worst is None else report.worst.word
    yield verdicts([(word, verdict_of(report), report.not_covered)])
    checked = report.checked
    yield tiles(
        [
            ("messages", f"{checked.messages - checked.fillers:,}"),
            ("log", format_size(checked.log_bytes)),
            ("derived files", format_size(checked.derived_bytes)),
            ("files", f"{checked.files:,}"),
            ("findings", f"{sum(report.counts.values()):,}"),
        ]
    )
    counts = [(kind, format_count(count)) for kind, count in sorted(report.counts.items())]
    yield section("Findings by kind", facts(counts))
    yield section("Findings", *map(_finding, report.findings))
    parts = [(each.part, each.reason) for each in report.not_checked]
    yield section("Not checked", facts(parts))


def _finding(finding: Finding) -> str:
    place = finding.file
    if finding.position is not None:
        place += f", byte {finding.position}"
    if finding.size:
        place += f", {format_count(finding.size, 'byte')}"
    pairs = [("found", finding.found), ("expected", finding.expected)]
    if finding.messages:
        names = ", ".join(map(str, finding.messages[:_NAMED]))
        count = finding.message_count or len(finding.messages)
        more = count - len(finding.messages[:_NAMED])
        pairs.append(("touches", names + (f", and {more:,} more" if more > 0 else "")))
    head = verdicts([(finding.severity.word, f"{finding.kind}: {place}", finding.advice)])
    return head + facts(pairs)

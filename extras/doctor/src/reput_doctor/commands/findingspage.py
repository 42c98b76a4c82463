"""The findings of a check as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput_cli.kit import format_count, format_duration, format_size
from reput_doctor.commands.printing import summary_of
from reput_doctor.pages import Head, facts, page, section, table, tiles, verdicts

if TYPE_CHECKING:
    from reput_doctor.findings import Finding, Report

__all__ = ["findings_page"]

_HEADS: Final = (
    Head("severity", keep=True),
    Head("kind", keep=True),
    Head("file"),
    Head("position", right=True),
    Head("bytes", right=True),
    Head("found"),
    Head("expected"),
    Head("touches"),
    Head("do"),
)


def findings_page(report: Report) -> str:
    """Return the page; it loads nothing from elsewhere, and every name in it is escaped."""
    foot = f"reput verify, {format_duration(report.seconds)}."
    return page(f"Store {report.path}", summary_of(report), filter(None, _sections(report)), foot)


def _sections(report: Report) -> Iterator[str]:
    word = "good" if report.worst is None else report.worst.word
    yield verdicts([(word, summary_of(report), "")])
    checked = report.checked
    yield tiles(
        [
            ("messages", f"{checked.messages:,}"),
            ("log", format_size(checked.log_bytes)),
            ("derived files", format_size(checked.derived_bytes)),
            ("files", f"{checked.files:,}"),
            ("findings", f"{sum(report.counts.values()):,}"),
        ]
    )
    counts = [(kind, format_count(count)) for kind, count in sorted(report.counts.items())]
    yield section("Findings by kind", facts(counts))
    rows = [_row(each) for each in report.findings]
    yield section("Findings", table(_HEADS, rows, most=len(rows)))
    plugins = ", ".join(checked.plugins) or "none"
    parts = [(each.part, each.reason) for each in report.not_checked]
    yield section("Compared with the log", facts([("plugins", plugins)]))
    yield section("Not checked", facts(parts))


def _row(finding: Finding) -> list[str | int | None]:
    names = ", ".join(map(str, finding.messages))
    count = finding.message_count
    more = 0 if count is None else count - len(finding.messages)
    return [
        finding.severity.word,
        finding.kind,
        finding.file,
        finding.position,
        finding.size,
        finding.found,
        finding.expected,
        names + (f", and {more:,} more" if names and more > 0 else ""),
        finding.advice,
    ]

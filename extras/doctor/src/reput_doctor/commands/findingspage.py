"""The findings of a check as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from reput_cli.kit import escape_text, format_count, format_duration, format_size
from reput_doctor.commands.printing import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput_doctor.findings import Finding, Report

__all__ = ["findings_page"]

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --loss: #c0183a; --damage: #c0183a;
  --warning: #a06800; --notice: #2a6f97; }
@media (prefers-color-scheme: dark) {
  :root { --loss: #ff7b8f; --damage: #ff7b8f; --warning: #ffc46b; --notice: #8cc8ea; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
  padding: 0 1rem; }
article { border-left: .3rem solid var(--line); padding: .2rem 1rem; margin: 1rem 0; }
article.loss { border-color: var(--loss); } article.damage { border-color: var(--damage); }
article.warning { border-color: var(--warning); } article.notice { border-color: var(--notice); }
h1, h2 { line-height: 1.2; } h3 { margin: .2rem 0; font-size: 1rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .3rem 0; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
"""


def findings_page(report: Report) -> str:
    """Return the page; it loads nothing from elsewhere, and every name in it is escaped."""
    return "".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_text(report.path)}: {_text(summary_of(report))}</title>"
    yield f"<style>{_STYLE}</style><h1>{_text(report.path)}</h1><p>{_text(summary_of(report))}</p>"
    checked = report.checked
    facts = [
        ("messages", f"{checked.messages:,}"),
        ("log", format_size(checked.log_bytes)),
        ("derived files", f"{', '.join(checked.plugins) or 'none'}: "
         f"{format_size(checked.derived_bytes)}"),
        ("time", format_duration(report.seconds)),
    ]  # fmt: skip
    yield _list(facts)
    if report.counts:
        yield "<h2>Findings</h2>"
        yield _list([(kind, f"{count:,}") for kind, count in sorted(report.counts.items())])
    for finding in report.findings:
        yield from _finding(finding)
    if report.not_checked:
        yield "<h2>Not checked</h2>"
        yield _list([(each.part, each.reason) for each in report.not_checked])
    yield "</html>\n"


def _finding(finding: Finding) -> Iterator[str]:
    word = finding.severity.word
    place = "" if finding.position is None else f", byte {finding.position}"
    size = f", {format_count(finding.size, 'byte')}" if finding.size else ""
    yield f'<article class="{word}"><h3>{word}: <code>{_text(finding.kind)}</code> '
    yield f"{_text(finding.file)}{place}{size}</h3>"
    facts = [("found", finding.found), ("expected", finding.expected)]
    if finding.messages:
        count = finding.message_count
        more = 0 if count is None else count - len(finding.messages)
        names = ", ".join(map(str, finding.messages))
        facts.append(("touches", names + (f", and {more:,} more" if more > 0 else "")))
    yield _list([*facts, ("do", finding.advice)])
    yield "</article>"


def _list(facts: list[tuple[str, str]]) -> str:
    pairs = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts)
    return f"<dl>{pairs}</dl>"


def _text(text: str) -> str:
    return escape(escape_text(text))

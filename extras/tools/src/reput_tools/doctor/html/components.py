"""Parts of a page: sections, tiles with numbers, verdicts, facts, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reput_tools.doctor.html.text import SENTENCES_MAX, html_text

Cell = str | int | None
"""A text, a number that is shown with thousands separators, or None for a dash."""


class Head(NamedTuple):
    """The head of a column."""

    title: str
    right: bool = False
    """Whether cells are aligned to the right, as numbers are."""
    keep: bool = False
    """Whether cells stay on one line, as times do."""


def section(title: str, *content: str) -> str:
    """Return content under a heading; nothing where all content is empty."""
    inner = "\n".join(filter(None, content))
    return f"<section><h2>{html_text(title)}</h2>\n{inner}</section>" if inner else ""


def subheading(text: str) -> str:
    """Return a heading inside of a section."""
    return f"<h3>{html_text(text)}</h3>"


def note(text: str) -> str:
    """Return a paragraph in a soft colour."""
    return f'<p class="soft">{html_text(text)}</p>' if text else ""


def tiles(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values that are seen at once."""
    inner = "".join(
        f'<div class="tile"><b>{html_text(value)}</b><span>{html_text(name)}</span></div>'
        for name, value in pairs
    )
    return f'<div class="tiles">{inner}</div>'


def verdicts(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return statements.

    Args:
        rows: a word (``loss``, ``damage``, ``warning``, ``notice``, ``good``), what is so, and what
            to do about it.
    """
    return "".join(
        f'<div class="verdict {html_text(word)}"><b>{html_text(word)}</b>'
        f"{html_text(text, SENTENCES_MAX)}"
        f"{f'<small>{html_text(advice, SENTENCES_MAX)}</small>' if advice else ''}</div>"
        for word, text, advice in rows
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values, one pair a line."""
    inner = "".join(
        f"<dt>{html_text(name)}</dt><dd>{html_text(value, SENTENCES_MAX)}</dd>"
        for name, value in pairs
    )
    return f"<dl>{inner}</dl>" if inner else ""


def table(heads: Sequence[Head], rows: Sequence[Sequence[Cell]], most: int = 200) -> str:
    """Return a table of at most ``most`` rows; nothing without rows."""
    if not rows:
        return ""
    kinds = [_KINDS[head.right, head.keep] for head in heads]
    titles = "".join(
        f"<th{kind}>{html_text(head.title)}</th>" for head, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>\n"
        for row in rows[:most]
    )
    more = note(f"… and {len(rows) - most:,} more") if len(rows) > most else ""
    return (
        f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>\n{body}</tbody></table>'
        f"</div>{more}"
    )


_KINDS = {
    (False, False): "",
    (False, True): ' class="keep"',
    (True, False): ' class="number"',
    (True, True): ' class="number"',
}


def _cell(cell: Cell) -> str:
    if cell is None or cell == "":
        return "–"
    return f"{cell:,}" if isinstance(cell, int) else html_text(cell)

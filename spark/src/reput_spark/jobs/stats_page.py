"""One HTML page of what was counted: tables, and plots as SVG; nothing is loaded from elsewhere."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from reput_spark.jobs.stats import QUESTIONS

if TYPE_CHECKING:
    from reput_spark.jobs.stats import Stats

__all__ = ["page"]

_ROWS: Final = 40
_WIDTH: Final = 720
_BAR: Final = 18
_LABEL: Final = 220
_HEIGHT: Final = 160
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222; }
table { border-collapse: collapse; font-size: 13px; } h2 { margin-top: 2.5rem; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
svg text { font: 12px system-ui, sans-serif; fill: #222; } svg rect { fill: #3b6ea5; }
"""


def page(stats: Stats, title: str) -> str:
    """Return the page as text.

    Args:
        stats: what was counted.
        title: of the page: the paths, say. It is escaped, as topics and keys are: none of them is
            taken for HTML.
    """
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{stats.message_count:,} messages, {stats.size:,} bytes of log.</p>",
    ]
    for name, about in QUESTIONS.items():
        table = stats.tables[name]
        parts.append(f'<h2 id="{name}">{name}</h2><p>{escape(about)}.</p>')
        parts.append(_plot(name, table))
        parts.extend(_table(table))
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _table(table: Any) -> Iterator[str]:
    rows = table.slice(0, _ROWS).to_pylist()
    numbers = {name for name in table.column_names if rows and _is_number(rows[0][name])}

    def cell(tag: str, name: str, text: str) -> str:
        kind = ' class="number"' if name in numbers else ""
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    heads = "".join(cell("th", name, name) for name in table.column_names)
    yield f"<table><tr>{heads}</tr>"
    for row in rows:
        yield f"<tr>{''.join(cell('td', name, _text(value)) for name, value in row.items())}</tr>"
    yield "</table>"
    if table.num_rows > _ROWS:
        yield f"<p>… and {table.num_rows - _ROWS:,} more.</p>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# ---------------------------------------------------------------------- plots


def _plot(name: str, table: Any) -> str:
    if table.num_rows == 0:
        return "<p>Nothing to show.</p>"
    if name == "hours":
        return _columns(table)
    if name == "delays":
        return _bars(*_delays(table))
    rows = table.slice(0, 15).to_pylist()
    names = [column for column in table.column_names if column in _NAMES]
    labels = [" ".join(_text(row[column]) for column in names) for row in rows]
    return _bars(labels, [row["messages"] for row in rows])


_NAMES: Final = ("topic", "queue_id", "tags", "key")


def _delays(table: Any) -> tuple[list[str], list[int]]:
    """Return labels and counts of the messages of all topics together, by delay."""
    counts: dict[tuple[int, str], int] = {}
    for row in table.to_pylist():
        least, below = row["from_ms"], row["below_ms"]
        label = "before it was born" if least is None else f"{least:,} – {below:,} ms"
        key = (-1 if least is None else least, label)
        counts[key] = counts.get(key, 0) + row["messages"]
    ordered = sorted(counts.items())
    return [label for (_, label), _ in ordered], [count for _, count in ordered]


def _bars(labels: Sequence[str], counts: Sequence[int]) -> str:
    """Draw bars from left to right, one below the other."""
    most = max(counts)
    parts = [f'<svg width="{_WIDTH}" height="{_BAR * len(labels) + 4}" role="img">']
    for row, (label, count) in enumerate(zip(labels, counts, strict=True)):
        y = row * _BAR
        width = (_WIDTH - _LABEL - 100) * count / most
        shown = label if len(label) <= 30 else f"{label[:29]}…"
        parts.append(f'<text x="0" y="{y + 13}">{escape(shown)}</text>')
        parts.append(
            f'<rect x="{_LABEL}" y="{y + 2}" width="{width:.1f}" height="{_BAR - 5}"></rect>'
        )
        parts.append(f'<text x="{_LABEL + width + 6:.1f}" y="{y + 13}">{count:,}</text>')
    return "".join([*parts, "</svg>"])


def _columns(table: Any) -> str:
    """Draw columns side by side, one for each hour, or for as many hours as share one."""
    rows = table.select(["hour", "messages"]).to_pylist()
    share = -(-len(rows) // (_WIDTH // 3))  # three pixels each, at least
    counts = [
        sum(row["messages"] for row in rows[at : at + share]) for at in range(0, len(rows), share)
    ]
    width, most = _WIDTH / len(counts), max(counts)
    parts = [f'<svg width="{_WIDTH}" height="{_HEIGHT + 20}" role="img">']
    for place, count in enumerate(counts):
        height = _HEIGHT * count / most
        parts.append(
            f'<rect x="{place * width:.1f}" y="{_HEIGHT - height:.1f}" '
            f'width="{max(width - 1, 1):.1f}" height="{height:.1f}"></rect>'
        )
    first, last = _text(rows[0]["hour"]), _text(rows[-1]["hour"])
    parts.append(f'<text x="0" y="{_HEIGHT + 15}">{first}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_HEIGHT + 15}" text-anchor="end">{last}</text>')
    return "".join([*parts, "</svg>"])

"""Plots: columns over time as SVG, and bars that are as wide as the reader's screen."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from reput_tools.doctor.html.text import html_text, shortened

SERIES_MAX: Final = 5
"""Series that have colours of their own; the rest is one more."""
_WIDTH: Final = 900
_HEIGHT: Final = 200
_LEFT: Final = 78
_TOP: Final = 16
_BOTTOM: Final = 30
_LABEL: Final = 40
_TWO_LABELS: Final = 300  # below this width the last label would run into the first
_COLUMN_MAX: Final = 80  # a few columns do not fill the plot


def columns(
    totals: Sequence[int],
    series: Sequence[tuple[str, Sequence[int]]] = (),
    *,
    labels: Sequence[str],
    title: str,
    links: Sequence[str] = (),
) -> str:
    """Draw columns side by side, each stacked of series; nothing without columns.

    Args:
        totals: what each column adds up to.
        series: names and values of parts; at most `SERIES_MAX`, in the order of their colours.
        labels: what each column stands for.
        title: of the whole plot, for readers who cannot see it.
        links: addresses to which the columns lead; none when left out.
    """
    most = max(totals, default=0)
    if most <= 0:
        return ""
    _, width = column_places(len(totals))
    gap = min(width * 0.15, 3)
    parts = [_axis(most)]
    for place, total in enumerate(totals):
        stack = [(number, values[place]) for number, (_, values) in enumerate(series)]
        stack.append((SERIES_MAX if series else 0, total - sum(value for _, value in stack)))
        base = float(_TOP + _HEIGHT)
        shapes = []
        for number, value in stack:
            if value <= 0:
                continue
            height = _HEIGHT * value / most
            base -= height
            shapes.append(
                f'<rect class="s{number}" x="{_LEFT + place * width + gap / 2:.1f}" '
                f'y="{base:.1f}" width="{max(width - gap, 0.5):.1f}" height="{height:.1f}"/>'
            )
        if shapes:
            label = f"{labels[place]}: {total:,}"
            if links:
                shapes.append(
                    f'<rect class="hit" x="{_LEFT + place * width:.1f}" y="{_TOP}" '
                    f'width="{width:.1f}" height="{_HEIGHT}"/>'
                )
            column = f"<g><title>{html_text(label)}</title>{''.join(shapes)}</g>"
            parts.append(_linked(column, label, links[place]) if links else column)
    parts.append(_text(_LEFT, _TOP + _HEIGHT + 22, labels[0], "start"))
    end = _LEFT + width * len(totals)
    if len(labels) > 1 and end - _LEFT > _TWO_LABELS:
        parts.append(_text(end, _TOP + _HEIGHT + 22, labels[-1], "end"))
    height = _TOP + _HEIGHT + _BOTTOM
    has_rest = any(
        total > sum(values[place] for _, values in series) for place, total in enumerate(totals)
    )
    names = [name for name, _ in series] + (["others"] if has_rest else [])
    numbers = [*range(len(series)), SERIES_MAX]
    role = "group" if links else "img"  # an image has nothing that can be reached by keys
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="{role}" aria-label="{html_text(title)}">'
        f"{''.join(parts)}</svg>{_keys(names, numbers) if series else ''}"
    )


def column_places(count: int) -> tuple[float, float]:
    """Return where the first of ``count`` columns begins, and the width of each, in the plot."""
    return _LEFT, min((_WIDTH - _LEFT) / max(count, 1), _COLUMN_MAX)


def bars(rows: Sequence[tuple[str, int]], shown: Sequence[str] | None = None) -> str:
    """Draw bars one below the other; nothing without rows.

    Args:
        rows: labels and values.
        shown: texts of the values; with thousands separators when left out.
    """
    most = max((value for _, value in rows), default=0)
    if most <= 0:
        return ""
    texts = shown or [f"{value:,}" for _, value in rows]
    inner = "".join(
        f'<div title="{html_text(label)}">{shortened(label, _LABEL)}</div>'
        f'<div class="bar"><i class="s0" style="width:{70 * value / most:.2f}%"></i>'
        f"<span>{html_text(text)}</span></div>"
        for (label, value), text in zip(rows, texts, strict=True)
    )
    return f'<div class="barlist">{inner}</div>'


def _linked(column: str, label: str, link: str) -> str:
    return f'<a href="{escape(link)}" aria-label="{html_text(label)}">{column}</a>'


def _axis(most: int) -> str:
    parts = []
    for value in (0, most // 2, most):
        y = _TOP + _HEIGHT * (1 - value / most)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 6, y + 4, _short(value), "end"))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html_text(text)}</text>'


def _keys(names: Sequence[str], numbers: Sequence[int]) -> str:
    inner = "".join(
        f'<span><i class="s{number}"></i>{shortened(name, _LABEL)}</span>'
        for name, number in zip(names, numbers, strict=False)
    )
    return f'<div class="keys">{inner}</div>'


def _short(value: int) -> str:
    """Return a number for an axis: ``950``, ``12.5 k``, ``3.4 M``."""
    scaled, unit = float(value), ""
    for larger in ("k", "M", "G", "T"):
        if scaled < 1000:
            break
        scaled, unit = scaled / 1000, larger
    text = f"{scaled:.1f}".removesuffix(".0")
    return f"{text} {unit}".strip()

"""Which columns of a wide table a terminal shows, and how much of each.

Source: DuckDB's shell, which cuts long cells and leaves out columns in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_GAP = 2
_LEAST = 10
"""Columns of a terminal that a column of the table keeps before others are left out."""
_ELLIPSIS = "…"


class Fit(NamedTuple):
    """What of a table is shown."""

    columns: Sequence[int]
    """The columns that are shown, by number."""
    widths: Sequence[int]
    """Of each of them, columns of the terminal."""
    gap_after: int | None
    """How many columns stand before those that are left out; None if all are shown."""


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a Chinese character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int, *, right: bool = False) -> str:
    """Return a text of exactly ``width`` columns: padded, or its beginning and an ellipsis."""
    taken = width_of(text)
    if taken > width:
        if text.isascii():
            return text[: width - 1] + _ELLIPSIS
        from rich.cells import set_cell_size

        return set_cell_size(text, width - 1) + _ELLIPSIS
    space = " " * (width - taken)
    return space + text if right else text + space


def cut_in_the_middle(text: str, width: int) -> str:
    """Return a text of at most ``width`` columns: a longer one loses what is in its middle."""
    if width_of(text) <= width:
        return text
    from rich.cells import set_cell_size

    end = (width - 1) // 2
    head = set_cell_size(text, width - 1 - end).rstrip()
    tail = set_cell_size(text[::-1], end).rstrip()[::-1] if end else ""
    return head + _ELLIPSIS + tail


def lines_of(text: str, width: int) -> list[str]:
    """Return the lines of a cell of ``width`` columns: a word that is too long is cut."""
    if width_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        shown = cut_in_the_middle(word, width)
        if lines[-1] and width_of(lines[-1]) + 1 + width_of(shown) > width:
            lines.append("")
        lines[-1] += f" {shown}" if lines[-1] else shown
    return lines


def fit(widths: Sequence[int], space: int) -> Fit:
    """Choose columns and widths for a terminal.

    The widest columns are cut first, all to the same width. If ten columns of the terminal for
    each are too many, columns in the middle are left out.

    Args:
        widths: of whole columns.
        space: columns of the terminal.
    """
    least = [min(width, _LEAST) for width in widths]
    shown = [*range(len(widths))]
    gap_after = None
    while len(shown) > 1 and _taken([least[each] for each in shown], gap_after) > space:
        gap_after = len(shown) // 2
        del shown[gap_after]
    left = space - (_taken([0] * len(shown), gap_after))
    cap = common_cap([widths[each] for each in shown], left)
    return Fit(shown, [min(widths[each], cap) for each in shown], gap_after)


def _taken(widths: Sequence[int], gap_after: int | None) -> int:
    """Return how many columns of a terminal a line takes, with an ellipsis for what is left out."""
    count = len(widths) + (gap_after is not None)
    return sum(widths) + (gap_after is not None) + _GAP * (count - 1)


def common_cap(widths: Sequence[int], space: int) -> int:
    """Return the greatest width to which all that are wider can be cut, so that the sum fits."""
    left = space
    for number, width in enumerate(sorted(widths)):
        share = left // (len(widths) - number)
        if width > share:
            return max(share, 1)
        left -= width
    return max(widths, default=1)

"""Prints results: JSON for programs, tables and facts for people.

On a terminal rich draws; into a pipe or a file go plain columns without borders, colours or line
breaks. Positions are printed as plain digits, as users copy them into commands; counts have
thousands separators and sizes have units.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reput_tools.cli.kit.escape import escape_text, json_safe
from reput_tools.cli.kit.terminaltable import common_cap, cut, lines_of, width_of

if TYPE_CHECKING:
    from rich.console import Console


_GAP = 2  # columns of the terminal between those of a table
_WORTH_WRAPPING = 30  # columns; in fewer the terminal's own wrapping is better
_LEAST = 8
"""Columns of the terminal that are left to a column of a table that can be narrower."""

# --------------------------------------------------------------------------- for programs


def print_json(document: Any) -> None:
    """Print one JSON document; always UTF-8, whatever the locale."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    click.echo(json_safe(text).encode())


def json_line(document: Any) -> bytes:
    """Return one JSON object as a line, with its line end."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return json_safe(text).encode() + b"\n"


def problem_lines(problems: Iterable[str]) -> bytes:
    """Return problems of a store as JSON objects, one a line, to print before the results."""
    return b"".join(json_line({"problem": problem}) for problem in problems)


# --------------------------------------------------------------------------- for people


class Column(NamedTuple):
    """One column of a table."""

    title: str
    right: bool = False
    """Whether cells are aligned to the right, as numbers are."""
    shrink: bool = False
    """Whether this column is broken into lines first if the terminal is narrow."""
    cuts: bool = False
    """Whether words that are too long are cut in the middle, as topics are, and not broken."""


def name_column(title: str) -> Column:
    """Return a column of topics, groups, members or hosts: a narrow terminal shows both ends.

    What a reader needs whole for the next command, such as a plugin or a file, is not cut.
    """
    return Column(title, shrink=True, cuts=True)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headings; this function escapes the cells."""
    cells = [[escape_text(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich_table(console(), columns, cells)
    else:
        _print_plain_table(columns, cells)


def print_facts(facts: Iterable[tuple[str, str]], indent: int = 2) -> None:
    """Print names and values, one pair a line; on a terminal long values are wrapped."""
    pairs = [(escape_text(name), escape_text(value)) for name, value in facts]
    width = max((len(name) for name, _ in pairs), default=0)
    room = shutil.get_terminal_size().columns - indent - width - 2
    for name, value in pairs:
        lines = [value]
        if sys.stdout.isatty() and len(value) > room >= _WORTH_WRAPPING:
            lines = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False)
        head = f"{' ' * indent}{styled(f'{name:{width}}', dim=True)}  "
        for line in lines:
            click.echo(f"{head}{line}".rstrip())
            head = " " * (indent + width + 2)


def print_text(text: str, **style: Any) -> None:
    """Print sentences in a style of `click.style`; on a terminal they are wrapped."""
    lines = [escape_text(text)]
    room = shutil.get_terminal_size().columns
    if sys.stdout.isatty() and room >= _WORTH_WRAPPING:
        lines = textwrap.wrap(lines[0], room, break_long_words=False, break_on_hyphens=False)
    for line in lines:
        click.echo(styled(line, **style))


def print_heading(text: str, *, space: bool = True) -> None:
    """Print a heading, with ``space`` after an empty line."""
    if space:
        click.echo()
    click.echo(styled(escape_text(text), bold=True))


def styled(text: str, **style: Any) -> str:
    """Return ``text`` in a style of `click.style` if stdout is a terminal that shows colours."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else click.style(text, **style)


def console() -> Console:
    """Return rich's console for the current stdout."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _print_rich_table(
    target: Console, columns: Sequence[Column], cells: Sequence[Sequence[str]]
) -> None:
    from rich.table import Table
    from rich.text import Text

    widths = _narrowed(columns, _widths(columns, cells), target.width)
    taken = sum(widths) + _GAP * (len(widths) - 1)
    padding = (0, _GAP, 0, 0)
    table = Table(box=None, pad_edge=False, padding=padding, header_style="bold", width=taken)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.shrink,
            overflow="fold",
            width=width,
        )
    for row in cells:
        shown = (
            "\n".join(lines_of(cell, width)) if column.cuts else cell
            for column, cell, width in zip(columns, row, widths, strict=True)
        )
        table.add_row(*map(Text, shown))
    target.print(table, crop=False)  # lines that are still too long are the terminal's to wrap


def _narrowed(columns: Sequence[Column], widths: Sequence[int], space: int) -> list[int]:
    """Return the widths with which a table fits into a terminal, if it can."""
    kept = [width for column, width in zip(columns, widths, strict=True) if not column.shrink]
    shrunk = [width for column, width in zip(columns, widths, strict=True) if column.shrink]
    left = space - sum(kept) - _GAP * (len(columns) - 1)
    cap = max(common_cap(shrunk, left), _LEAST)
    return [
        min(width, cap) if column.shrink else width
        for column, width in zip(columns, widths, strict=True)
    ]


def _print_plain_table(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    widths = _widths(columns, cells)
    for row in ([column.title for column in columns], *cells):
        click.echo(plain_line(columns, widths, row))


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    table = [[column.title for column in columns], *cells]
    return [max(width_of(row[place]) for row in table) for place in range(len(columns))]


def plain_line(columns: Sequence[Column], widths: Sequence[int], cells: Iterable[str]) -> str:
    """Return a line of a table, each of whose cells fits into its width."""
    padded = (
        cut(cell, width, right=column.right)
        for column, cell, width in zip(columns, cells, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


# --------------------------------------------------------------------------- numbers


def format_count(count: int, one: str = "", many: str | None = None) -> str:
    """Return ``1 message``, ``60,000 messages``; only the number if no word is given."""
    if not one:
        return f"{count:,}"
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_size(size: int) -> str:
    """Return bytes in a fitting unit: ``512 B``, ``16.0 MiB``."""
    if abs(size) < 1024:
        return f"{size} B"
    scaled = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        scaled /= 1024
        if abs(scaled) < 1024:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1024:.1f} PiB"


def format_rate(count: int, seconds: float, one: str = "message") -> str:
    """Return ``120,000 messages/s``; a dash if nothing was measured."""
    if seconds <= 0 or count <= 0:
        return "-"
    return f"{count / seconds:,.0f} {one}s/s"

"""Rows of a query as a table, line by line, as CSV or as JSON lines, printed as they come.

Memory holds `_MEASURED` rows: a table takes the widths of its columns from these. A longer cell
after them moves what follows in its line; on a terminal it is cut.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import click

from reput_tools.cli.kit.escape import escape_text
from reput_tools.cli.kit.output import Column, format_count, json_line, print_table, styled
from reput_tools.cli.kit.queryvalues import json_of, text_of
from reput_tools.cli.kit.terminaltable import Fit, cut, fit, width_of

_MEASURED = 1_000  # rows
FORMS = ("table", "line", "csv", "jsonl")
"""Forms of the answer to a query."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def rows_options(command: _Command) -> _Command:
    """Add ``--format`` and ``--json``; `print_rows` takes the value of ``form``."""
    command = click.option(
        "--json", "form", flag_value="jsonl", help="The same as --format jsonl."
    )(command)
    return click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        help="A table (the default), a line for each value, CSV with a header, or a JSON object"
        " a line. On a terminal, a table is cut to fit.",
    )(command)


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], form: str | None) -> int:
    """Print rows; return their number.

    Args:
        names: of the columns; of equal names the later ones get a number.
        rows: values of Python, also lists, mappings and times.
        form: one of `FORMS`; None for a table.
    """
    table = _fitted_table if sys.stdout.isatty() else _table
    forms = {"table": table, "line": _lines, "csv": _csv, "jsonl": _json_lines}
    printed = forms[form or "table"]
    return printed(_distinct(names), iter(rows))


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, distinct = 1, name
        while distinct in found:
            distinct = f"{name}_{number}"
            number += 1
        found.append(distinct)
    return found


def _json_lines(names: list[str], rows: Iterator[Sequence[Any]]) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  # the number of the last row
        click.echo(json_line(dict(zip(names, map(json_of, row), strict=True))), nl=False)
    return count


def _csv(names: list[str], rows: Iterator[Sequence[Any]]) -> int:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    # A terminal obeys control characters; a program gets the text as it is.
    shown = escape_text if sys.stdout.isatty() else str
    count = -1  # the header is a line, too
    for cells in chain([names], (map(_csv_cell, row) for row in rows)):
        writer.writerow(map(shown, cells))
        click.echo(line.getvalue().encode("utf-8", "backslashreplace"), nl=False)
        line.seek(0)
        line.truncate()
        count += 1
    return count


def _csv_cell(value: Any) -> str:
    return "" if value is None else text_of(value)


def _table(names: list[str], rows: Iterator[Sequence[Any]]) -> int:
    first = list(islice(rows, _MEASURED))
    rest = list(islice(rows, 1))
    columns = [
        Column(name, right=_are_numbers(first, place), shrink=True)
        for place, name in enumerate(names)
    ]
    if not rest:
        print_table(columns, ([*map(_cell, row)] for row in first))
        return len(first)
    widths = [width_of(escape_text(name)) for name in names]
    cells = [*map(_escaped, first)]
    for row in cells:
        widths = [max(width, width_of(cell)) for width, cell in zip(widths, row, strict=True)]
    _print_line(columns, widths, map(escape_text, names))
    count = 0
    for row in chain(cells, map(_escaped, chain(rest, rows))):
        _print_line(columns, widths, row)
        count += 1
    return count


def _fitted_table(names: list[str], rows: Iterator[Sequence[Any]]) -> int:
    """Print a table that is not wider than the terminal, and say what it leaves out."""
    first = list(islice(rows, _MEASURED))
    is_right = [_are_numbers(first, place) for place in range(len(names))]
    titles = [*map(escape_text, names)]
    widths = [width_of(title) for title in titles]
    cells = [*map(_escaped, first)]
    for row in cells:
        widths = [max(width, width_of(cell)) for width, cell in zip(widths, row, strict=True)]
    shown = fit(widths, shutil.get_terminal_size().columns)
    click.echo(styled(_fitted(titles, shown, is_right), bold=True))
    count = 0
    for row in chain(cells, map(_escaped, rows)):
        click.echo(_fitted(row, shown, is_right))
        count += 1
    if shown.gap_after is not None:
        text = f"{format_count(count, 'row')}, {len(names)} columns, {len(shown.columns)} shown"
        click.echo(styled(f"{text}; --format line (or .mode line) shows all", dim=True))
    return count


def _fitted(cells: Sequence[str], shown: Fit, is_right: Sequence[bool]) -> str:
    found = [
        cut(cells[column], width, right=is_right[column])
        for column, width in zip(shown.columns, shown.widths, strict=True)
    ]
    if shown.gap_after is not None:
        found.insert(shown.gap_after, "…")
    return "  ".join(found).rstrip()


def _lines(names: list[str], rows: Iterator[Sequence[Any]]) -> int:
    """Print each value on a line of its own, with the name of its column."""
    titles = [*map(escape_text, names)]
    width = max(map(width_of, titles), default=0)
    count = 0
    for count, row in enumerate(rows, 1):
        if count > 1:
            click.echo()
        for title, cell in zip(titles, _escaped(row), strict=True):
            click.echo(f"{cut(title, width, right=True)} = {cell}")
    return count


def _escaped(row: Sequence[Any]) -> list[str]:
    return [escape_text(_cell(value)) for value in row]


def _print_line(columns: Sequence[Column], widths: Sequence[int], cells: Iterable[str]) -> None:
    padded = (
        " " * (width - width_of(cell)) + cell
        if column.right
        else cell + " " * (width - width_of(cell))
        for column, cell, width in zip(columns, cells, widths, strict=True)
    )
    click.echo("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    return "NULL" if value is None else text_of(value)


def _are_numbers(rows: Sequence[Sequence[Any]], place: int) -> bool:
    from decimal import Decimal
    from numbers import Number

    values = [row[place] for row in rows if row[place] is not None]
    return bool(values) and all(
        isinstance(value, Number | Decimal) and not isinstance(value, bool) for value in values
    )

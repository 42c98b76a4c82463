"""One column of a report's tables, as a terminal and a page show it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_tools.cli.kit import Column, format_count, format_timestamp, print_table
from reput_tools.doctor.html import Cell, Head, table
from reput_tools.doctor.storereport.concerns import format_age

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import StoreReport

_PAGE_ROWS: Final = 500


@attrs.frozen
class Moment:
    """A time at which something happened: an age in a terminal, the time itself on a page."""

    timestamp: int | None


@attrs.frozen
class Age:
    """How long something has been waiting, from its time."""

    timestamp: int | None


@attrs.frozen
class Place:
    """A number that counts nothing, such as an offset: shown without separators."""

    number: int | None


Value = str | int | Moment | Age | Place | None
"""A whole number is a count; None is shown as a dash."""


class _On(enum.Flag):
    TERMINAL = enum.auto()
    PAGE = enum.auto()


@attrs.frozen
class Field:
    """A column: its title, and what it shows of a row."""

    title: str
    value: Callable[[Any], Value]
    right: bool = False
    """Whether cells are aligned to the right, as numbers are."""
    shrink: bool = False
    """Whether a narrow terminal breaks this column into lines first."""
    cuts: bool = False
    """Whether it cuts names that are too long in the middle; the column shrinks, too."""
    keep: bool = False
    """Whether cells stay on one line on a page, as times do."""
    on: _On = _On.TERMINAL | _On.PAGE

    def only_on_page(self) -> Field:
        """Return this column for pages, which are wider than a terminal."""
        return attrs.evolve(self, on=_On.PAGE)

    def only_in_terminal(self) -> Field:
        """Return this column for a terminal."""
        return attrs.evolve(self, on=_On.TERMINAL)


def print_rows(fields: Sequence[Field], rows: Sequence[Any], report: StoreReport) -> None:
    """Print rows as a table in a terminal."""
    shown = [field for field in fields if _On.TERMINAL in field.on]
    columns = [
        Column(field.title.upper(), field.right, field.shrink or field.cuts, field.cuts)
        for field in shown
    ]
    print_table(
        columns, ([_in_terminal(field.value(row), report) for field in shown] for row in rows)
    )


def rows_table(fields: Sequence[Field], rows: Sequence[Any], report: StoreReport) -> str:
    """Return rows as a table of a page; nothing without rows."""
    shown = [field for field in fields if _On.PAGE in field.on]
    heads = [Head(field.title, field.right, field.keep) for field in shown]
    cells = [[_on_page(field.value(row), report) for field in shown] for row in rows]
    return table(heads, cells, _PAGE_ROWS)


def _in_terminal(value: Value, report: StoreReport) -> str:
    match value:
        case Moment(None) | Age(None) | Place(None) | None:
            return "-"
        case Moment(int(timestamp)) | Age(int(timestamp)):
            return _age(report, timestamp) or format_timestamp(timestamp)
        case Place(number):
            return str(number)
        case int():
            return format_count(value)
    return str(value)


def _on_page(value: Value, report: StoreReport) -> Cell:
    match value:
        case Moment(None) | Age(None) | Place(None):
            return None
        case Moment(int(timestamp)):
            return moment(timestamp)
        case Age(int(timestamp)):
            return _age(report, timestamp) or moment(timestamp)
        case Place(number):
            return str(number)
        case str() | int() | None:
            return value
    raise AssertionError(value)


def _age(report: StoreReport, timestamp: int) -> str | None:
    """Return how long ago a time was; None for a time after the report was made."""
    age = (report.made_timestamp - timestamp) / 1000
    return format_age(age) if age >= 0 else None


def moment(timestamp: int) -> str:
    """Return a time to the minute."""
    text = format_timestamp(timestamp)
    return text[:16] if len(text) == len("2026-01-31 12:00:00.123") else text

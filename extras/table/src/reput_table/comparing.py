"""Compares the rows of a store's table with those of a table that was rebuilt from the log."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reput.errors import CorruptFileError
from reput.plugin import Compared, Difference
from reput_table.connecting import FILE_NAME, reading

if TYPE_CHECKING:
    from reput.plugin import Comparison

__all__ = ["weigh"]


def weigh(comparison: Comparison, differences: Sequence[Difference]) -> Compared:
    """Return which of ``differences`` are differences of rows; see `reput.Plugin.weigh`."""
    real, not_compared = [], []
    for each in differences:
        files = [os.path.join(root, each.path) for root in (comparison.root, comparison.built)]
        both = all(comparison.disk.exists(path) for path in files)
        if not both or os.path.basename(each.path) != FILE_NAME:
            real.append(each)
            continue
        try:
            reason, left_out = _compare_rows(files[0], files[1], comparison)
        except CorruptFileError as error:
            reason, left_out = error.reason, None
        if reason is not None:
            real.append(Difference(each.path, 0, reason))
        if left_out is not None:
            not_compared.append(left_out)
    return Compared(tuple(real), tuple(not_compared))


def _compare_rows(path: str, other: str, comparison: Comparison) -> tuple[str | None, str | None]:
    """Return the first difference of rows, and which rows were not compared; None for none."""
    with reading(path, comparison.disk) as found, reading(other, comparison.disk) as built:
        reached, end = _place(found), _place(built)
        left_out = None
        stop = 1 << 62
        if reached < end:
            # The last part of the table is not complete.
            (last,) = found.execute('SELECT max("part") FROM "_parts"').fetchone()
            stop = last or 0
            left_out = (
                f"rows of messages that are not dispatched yet, from part {stop} of the log on"
            )
        rows = itertools.zip_longest(
            _rows(found, comparison.log.min_physical_offset, stop),
            _rows(built, comparison.log.min_physical_offset, stop),
        )
        for number, (row, expected) in enumerate(rows):
            if row != expected:
                return (
                    f"row {number}: {_shown(row)}; from the log follows {_shown(expected)}",
                    left_out,
                )
        return None, left_out


def _place(connection: sqlite3.Connection) -> int:
    (place,) = connection.execute('SELECT "dispatched_to" FROM "_place"').fetchone()
    return int(place)


def _rows(connection: sqlite3.Connection, start: int, stop: int) -> sqlite3.Cursor:
    # In the order of the primary key, or of the row numbers, which is that of the log.
    query = 'SELECT * FROM "_rows" WHERE "_part" >= ? AND "_part" < ?'
    has_numbers = "WITHOUT ROWID" not in str(
        connection.execute("SELECT sql FROM sqlite_master WHERE name = '_rows'").fetchone()
    )
    return connection.execute(query + (" ORDER BY rowid" if has_numbers else ""), (start, stop))


def _shown(row: tuple[Any, ...] | None) -> str:
    return "there is none" if row is None else str(row[:-1])

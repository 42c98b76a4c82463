"""Compares the rows of a store's table with those of a table that was rebuilt from the log."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reput.errors import CorruptFileError
from reput_table.connections import FILE_NAME, place_of, reading
from reput_tools.offline import Compared, Difference

if TYPE_CHECKING:
    from reput_tools.offline import Comparison


def weigh(comparison: Comparison, differences: Sequence[Difference]) -> Compared:
    """Return how rows of differing files differ; see `reput_tools.offline.hookspecs`."""
    real: list[Difference] = []
    not_compared: list[str] = []
    for path in dict.fromkeys(each.path for each in differences):
        files = [os.path.join(root, path) for root in (comparison.root, comparison.built)]
        both = all(comparison.disk.exists(file) for file in files)
        if not both or os.path.basename(path) != FILE_NAME:
            real += (each for each in differences if each.path == path)
            continue
        try:
            found, left_out = _compare_rows(path, files[0], files[1], comparison)
        except CorruptFileError as error:
            found, left_out = [Difference(path, error.position, error.reason, kind="file")], None
        if comparison.damaged and found:
            # Rows of messages that the log has lost cannot be told from wrong ones.
            found, left_out = [], "rows: the log that they would follow from is damaged"
        real += found
        if left_out is not None:
            not_compared.append(left_out)
    return Compared(tuple(real), tuple(not_compared))


def _compare_rows(
    name: str, path: str, other: str, comparison: Comparison
) -> tuple[list[Difference], str | None]:
    """Return the first differences of rows, and which rows were not compared; None for none."""
    with reading(path, comparison.disk) as found, reading(other, comparison.disk) as built:
        reached, end = place_of(found), place_of(built)
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
        differences = (
            _difference(name, number, row, expected)
            for number, (row, expected) in enumerate(rows)
            if row != expected
        )
        return list(itertools.islice(differences, comparison.limit)), left_out


def _difference(
    name: str, number: int, row: tuple[Any, ...] | None, expected: tuple[Any, ...] | None
) -> Difference:
    reason = f"row {number}: {_shown(row)}; from the log follows {_shown(expected)}"
    return Difference(
        name,
        0,
        reason,
        kind="row",
        found=f"row {number}: {_shown(row)}",
        expected=_shown(expected),
        is_absent=row is None,
    )


def _rows(connection: sqlite3.Connection, start: int, stop: int) -> sqlite3.Cursor:
    # In the order of the primary key, or of the row numbers, which is that of the log.
    query = 'SELECT * FROM "_rows" WHERE "_part" >= ? AND "_part" < ?'
    has_numbers = "WITHOUT ROWID" not in str(
        connection.execute("SELECT sql FROM sqlite_master WHERE name = '_rows'").fetchone()
    )
    return connection.execute(query + (" ORDER BY rowid" if has_numbers else ""), (start, stop))


def _shown(row: tuple[Any, ...] | None) -> str:
    return "no such row" if row is None else str(row[:-1])

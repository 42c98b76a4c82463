"""What a table's file must hold: checks the file of a plugin, for its writer and for readers."""

from __future__ import annotations

import sqlite3

import attrs

from reput.errors import CorruptFileError
from reput_table.errors import is_refused
from reput_table.schema import Schema, checksum


@attrs.frozen
class Layout:
    """What decides the rows of a table, besides the log."""

    schema: Schema
    view: str
    """The plugin's name, which is also that of its view."""
    fingerprint: str
    """Changes with everything else: the plugin's version, its options, the size of log files."""
    code_mark: int = attrs.field(default=0, eq=False)
    """See `reput_table.rowscode`; 0 if it is not known. The table is valid all the same."""

    @property
    def statements(self) -> list[str]:
        """The statements that make the tables."""
        return self.schema.statements(self.view)


def check_table(
    connection: sqlite3.Connection, layout: Layout, path: str, size: int, check_size: int
) -> bool:
    """Check the file of a connection.

    Args:
        connection: to the file.
        layout: what the file should have been made for.
        path: the file, for errors.
        size: its bytes.
        check_size: largest size at which every row is checked; of a larger file only the size, the
            tables and the place.

    Returns:
        Whether the table is valid; False if it was made for another layout.

    Raises:
        CorruptFileError: the file is damaged.
        sqlite3.Error: SQLite cannot read it.
    """
    try:
        return _check(connection, layout, path, size, check_size)
    except sqlite3.OperationalError as error:
        if not is_refused(error):
            raise
        # A text that is not UTF-8, a table that is not a table.
        raise CorruptFileError(path, 0, f"not what SQLite wrote: {error}") from error


def _check(
    connection: sqlite3.Connection, layout: Layout, path: str, size: int, check_size: int
) -> bool:
    run = connection.execute
    (page_count,), (page_size,) = (
        run("PRAGMA page_count").fetchone(),
        run("PRAGMA page_size").fetchone(),
    )
    if size < page_count * page_size:
        raise CorruptFileError(path, size, f"{page_count * page_size} bytes expected, found {size}")
    made = [text for (text,) in run("SELECT sql FROM sqlite_master WHERE sql NOTNULL")]
    if sorted(made) != sorted(layout.statements):
        if not made:
            raise CorruptFileError(path, 0, "there is no table; the file was emptied")
        if size <= check_size:
            _check_pages(connection, path)
        return False
    places = run('SELECT * FROM "_place"').fetchall()
    if len(places) != 1 or checksum(*places[0][:-1]) != places[0][-1]:
        raise CorruptFileError(path, 0, f"one place in the log expected, found {places}")
    if places[0][2] != layout.fingerprint:
        return False
    if size <= check_size:
        _check_pages(connection, path)
        for part in run('SELECT * FROM "_parts"').fetchall():
            if checksum(*part[:-1]) != part[-1]:
                raise CorruptFileError(path, 0, f"the part {part} does not have its checksum")
        (wrong,) = run(layout.schema.wrong_rows).fetchone()
        if wrong:
            raise CorruptFileError(path, 0, f"{wrong} rows do not have their checksum")
    return True


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise CorruptFileError(path, 0, f"not what SQLite wrote: {found}")

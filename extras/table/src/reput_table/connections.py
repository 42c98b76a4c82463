"""Connections to a table's file: for its writer, for readers beside a writer, and in memory.

SQLite opens, locks and flushes its files by itself. It is the one part of a store that does not
reach them through `reput.files.Disk`, which is asked first whether the path is one of the store's.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from reput_table.errors import QueryError, error_of, is_busy
from reput_table.schema import Schema, checksum

if TYPE_CHECKING:
    from reput.files import Disk

FILE_NAME: Final = "table.sqlite"
_JOURNAL: Final = "-journal"
_LOCK_SECONDS: Final = 5.0
_TRIES: Final = 5
_STEPS: Final = 10_000  # of SQLite's machine, between two looks at the clock
_PRAGMAS: Final = (
    "synchronous = EXTRA",  # the journal's removal is a commit, and is on disk, too
    "cache_size = -65536",  # 64 MiB
    "cache_spill = OFF",  # a spill would lock readers out in the middle of a transaction
    "temp_store = MEMORY",
    "cell_size_check = ON",
    "trusted_schema = OFF",
)
_READING: Final = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def connect(path: str, disk: Disk, mode: str) -> sqlite3.Connection:
    """Connect to the file at ``path``.

    Args:
        path: the file, below the store's directory.
        disk: the store's; it refuses paths that lead out of the store.
        mode: ``"ro"``, ``"rw"``, or ``"rwc"`` to make the file if it is missing.

    Raises:
        UnsafePathError: the file, or a directory on the way, is a link.
        OSError: the file cannot be opened.
    """
    for each in (path, path + _JOURNAL):
        if disk.exists(each):
            disk.status(each)
    try:
        made = _prepared(
            sqlite3.connect(
                f"file:{quote(path)}?mode={mode}",
                timeout=_LOCK_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
        )
        if getattr(disk, "flushes_nothing", False):  # of a test that cuts no power
            made.execute("PRAGMA synchronous = OFF")
        return made
    except (sqlite3.Error, UnicodeError) as error:
        raise error_of(error, path) from error


def connect_in_memory(schema: Schema, view: str) -> sqlite3.Connection:
    """Return an empty table that is in no file."""
    made = _prepared(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
    for statement in schema.statements(view):
        made.execute(statement)
    return made


def place_of(connection: sqlite3.Connection) -> int:
    """Return the physical offset below which all messages are in the table; 0 if it is new."""
    place = connection.execute('SELECT "dispatched_to" FROM "_place"').fetchone()
    return 0 if place is None else int(place[0])


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.create_function("reput_check", -1, checksum, deterministic=True)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA schema_version").fetchone()  # reads the file now
    except (sqlite3.Error, UnicodeError):
        connection.close()
        raise
    return connection


@contextmanager
def reading(path: str, disk: Disk) -> Iterator[sqlite3.Connection]:
    """Connect for reading only, beside a writer or after the death of one; nothing is written.

    A writer that died in a commit has left a journal, which only a writer may roll back. Then a
    copy of the two files is rolled back and read, outside of the store.
    """
    with ExitStack() as stack:
        connection = _snapshot(path, disk, stack)
        try:
            yield connection
        except (sqlite3.Error, UnicodeError) as error:
            raise error_of(error, path) from error


def _snapshot(path: str, disk: Disk, stack: ExitStack) -> sqlite3.Connection:
    """Return a connection in a transaction, so that no writer commits before it is closed."""
    tries = _TRIES
    while True:
        try:
            connection = stack.enter_context(closing(connect(path, disk, "ro")))
            return _begun(connection, path)
        except OSError as error:
            tries -= 1
            if error.errno != errno.EROFS or not tries:
                raise
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="reput-table-"))
        if _copy(path, disk, directory):
            copy = sqlite3.connect(os.path.join(directory, FILE_NAME), isolation_level=None)
            return _begun(stack.enter_context(closing(_prepared(copy))), path)


def _begun(connection: sqlite3.Connection, path: str) -> sqlite3.Connection:
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (sqlite3.Error, UnicodeError) as error:
        raise error_of(error, path) from error
    return connection


def _copy(path: str, disk: Disk, directory: str) -> bool:
    """Copy file and journal; False if a writer came meanwhile, which rolls back by itself."""
    journal, copy = path + _JOURNAL, os.path.join(directory, FILE_NAME)
    try:
        before = disk.status(journal), disk.status(path)
        shutil.copyfile(journal, copy + _JOURNAL)
        shutil.copyfile(path, copy)
        after = disk.status(journal), disk.status(path)
    except FileNotFoundError:
        return False
    return list(map(_mark, before)) == list(map(_mark, after))


def _mark(status: Any) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


# --------------------------------------------------------------------------- queries


class Selected:
    """The rows of a query, read one after another."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor
        self.columns = tuple(each[0] for each in cursor.description or ())
        """Names of the columns, as SQLite gives them."""
        self.dispatched_to = 0
        """Physical offset below which all messages are in the table."""
        self.lag_size = 0
        """Bytes of the log after it; their messages are not in the table."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._cursor)


@contextmanager
def run_query(
    connection: sqlite3.Connection,
    view: str,
    columns: Sequence[str],
    query: str,
    parameters: Sequence[Any],
    seconds: float,
) -> Iterator[Selected]:
    """Run a query that changes nothing; its rows are read in the block.

    Raises:
        QueryError: SQLite refuses the query, it would change something, or it takes too long.
        ValueError: the seconds are NaN.
    """
    if math.isnan(seconds):
        raise ValueError(f"timeout: a number of seconds expected, found {seconds!r}")
    stop = time.monotonic() + seconds
    connection.set_authorizer(_allow_reading)
    connection.set_progress_handler(lambda: time.monotonic() > stop, _STEPS)
    try:
        with closing(connection.execute(query, parameters)) as cursor:
            yield Selected(cursor)
    except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
        reason = str(error)
        if reason == "interrupted":
            reason = f"it took longer than {seconds:g} s; give more by timeout=, or an index"
        elif is_busy(error):
            reason = "a writer has kept the file locked; try again"
        raise QueryError(view, query, reason, tuple(columns)) from error
    except sqlite3.DatabaseError as error:
        if str(error) == "not authorized":
            reason = "a query only reads: SELECT"
            raise QueryError(view, query, reason, tuple(columns)) from error
        raise
    finally:
        connection.set_authorizer(None)
        connection.set_progress_handler(None, 0)


def _allow_reading(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY

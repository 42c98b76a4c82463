"""`TableFile`: one plugin's rows and place in one SQLite file, changed in transactions.

A transaction has rows of messages and, with them, how far the log is in the table. So the file
always agrees with itself: what a crash leaves is the table of an earlier place.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError, DiskFrozenError
from reput_table.connections import connect
from reput_table.errors import error_of, is_busy
from reput_table.schema import checksum, with_checksums
from reput_table.tablecheck import Layout, check_table

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_table.pendingrows import Parting, PartRows, PendingRows

_opened: weakref.WeakSet[TableFile] = weakref.WeakSet()


def _abandon() -> None:
    """Keep a forked child from closing connections: it would roll back its parent's changes."""
    for each in list(_opened):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each.connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon)


@attrs.frozen
class Part:
    """A part of the log from which messages were dispatched."""

    first_offset: int
    """Physical offset of its first record."""
    first_row: int
    """Number of its first row; 0 in a table with a key."""


@attrs.define(eq=False)
class TableFile:
    """The writer's table. Not thread-safe."""

    layout: Layout
    path: str
    disk: Disk
    connection: sqlite3.Connection
    dispatched_to: int = 0
    """Physical offset below which all of the log is in the table, the open transaction included."""
    parts: dict[int, Part] = attrs.field(factory=dict)
    """Parts by their first byte in the log."""
    uncommitted: int = 0
    """Rows of the open transaction."""
    _committed: tuple[int, dict[int, Part]] = attrs.field(init=False)
    """`dispatched_to` and `parts` without the open transaction."""

    def __attrs_post_init__(self) -> None:
        self._committed = self.dispatched_to, dict(self.parts)
        _opened.add(self)

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, layout: Layout, path: str, disk: Disk, check_size: int) -> TableFile | None:
        """Open the file; return None if it is missing, or was made for another layout.

        Raises:
            CorruptFileError: the file is damaged.
        """
        if not disk.exists(path):
            return None
        opened = cls(layout, path, disk, connect(path, disk, "rw"))
        try:
            if opened._load(disk.status(path).st_size, check_size):
                return opened
        except (sqlite3.Error, UnicodeError) as error:
            opened.connection.close()
            found = error_of(error, path)
            # Damage to the header can say that the file must not be written.
            if isinstance(found, OSError) and found.errno != errno.EROFS:
                raise found from error
            raise CorruptFileError(path, 0, f"not what SQLite wrote: {error}") from error
        except BaseException:
            opened.connection.close()
            raise
        opened.connection.close()
        return None

    def _load(self, size: int, check_size: int) -> bool:
        run = self.connection.execute
        run("BEGIN IMMEDIATE")  # rolls back what a kill has left
        if not check_table(self.connection, self.layout, self.path, size, check_size):
            return False
        (self.dispatched_to,) = run('SELECT "dispatched_to" FROM "_place"').fetchone()
        for part, first_offset, first_row, _ in run('SELECT * FROM "_parts" ORDER BY "part"'):
            self.parts[part] = Part(first_offset, first_row)
        run("ROLLBACK")
        self._committed = self.dispatched_to, dict(self.parts)
        return True

    @classmethod
    def make(cls, layout: Layout, path: str, disk: Disk) -> TableFile:
        """Create the file, in place of an existing one."""
        disk.make_directory(os.path.dirname(path), durable=True)
        remove(path, disk)
        made = cls(layout, path, disk, connect(path, disk, "rwc"))
        try:
            with made._changing():
                for statement in layout.statements:
                    made.connection.execute(statement)
                made.mark_code()
            made.commit()
        except BaseException:
            made.close()
            raise
        return made

    @property
    def code_mark(self) -> int:
        """The mark of the code that made the first rows; 0 if it is not known."""
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def mark_code(self) -> None:
        """Note the mark of the code that makes rows from now on."""
        with self._changing():
            self.connection.execute(f"PRAGMA user_version = {self.layout.code_mark:d}")

    # ------------------------------------------------------------------ rows

    def add(self, pending: PendingRows) -> None:
        """Take the rows of the messages that follow, and their place, into the transaction."""
        for part, found in pending.parts.items():
            self.add_part(part, found)
        if pending.dispatched_to > self.dispatched_to:
            with self._changing():
                self.dispatched_to = pending.dispatched_to
                self._note_place()

    def add_part(self, part: int, found: PartRows) -> None:
        """Take rows of one part, which is the last one or follows it."""
        with self._changing():
            self.keep_part(part, found.first_offset)
            rows = with_checksums(found.rows(part))
            self.connection.executemany(self.layout.schema.insert, rows)
            self.uncommitted += len(found)

    def add_attached(self, name: str, dispatched_to: int) -> None:
        """Take the rows of an attached table, which follows this one in the log."""
        schema = self.layout.schema
        with self._changing():
            run = self.connection.execute
            parts = run(
                f'SELECT "part", "first_offset", "first_row" FROM {name}."_parts"'
            ).fetchall()
            for (part, first_offset, first_row), after in zip(
                parts, [*(row[2] for row in parts[1:]), 1 << 62], strict=True
            ):
                self.keep_part(part, first_offset)
                rows = f'INSERT INTO main."_rows" SELECT * FROM {name}."_rows"'
                if schema.key:
                    run(f'{rows} WHERE "_part" = ? {schema.on_conflict}', (part,))
                else:
                    run(f"{rows} WHERE rowid >= ? AND rowid < ? ORDER BY rowid", (first_row, after))
            self.dispatched_to = dispatched_to
            self._note_place()

    def keep_part(self, part: int, first_offset: int) -> None:
        """Note a part; do nothing if it is known."""
        if part in self.parts:
            return
        first_row = 0
        if not self.layout.schema.key:
            (last,) = self.connection.execute('SELECT max(rowid) FROM "_rows"').fetchone()
            first_row = (last or 0) + 1
        with self._changing():
            values = (part, first_offset, first_row)
            statement = 'INSERT INTO "_parts" VALUES (?, ?, ?, ?)'
            self.connection.execute(statement, (*values, checksum(*values)))
        self.parts[part] = Part(first_offset, first_row)

    def cut(self, physical_offset: int, parting: Parting) -> None:
        """Forget messages from ``physical_offset`` on, and all others of its part."""
        if physical_offset >= self.dispatched_to:
            return
        first = parting.part_of(physical_offset)
        gone = sorted(part for part in self.parts if part >= first)
        with self._changing():
            if gone:
                physical_offset = min(physical_offset, self.parts[gone[0]].first_offset)
                self._forget(gone, ">=", gone[0])
            self.dispatched_to = physical_offset
            self._note_place()

    def trim(self, min_physical_offset: int) -> None:
        """Forget the parts below ``min_physical_offset``, where a file of the log begins."""
        gone = sorted(part for part in self.parts if part < min_physical_offset)
        if not gone and self.dispatched_to >= min_physical_offset:
            return
        kept = sorted(self.parts.keys() - gone)
        with self._changing():
            if gone:
                self._forget(gone, *(("<", kept[0]) if kept else (">=", gone[0])))
            self.dispatched_to = max(self.dispatched_to, min_physical_offset)
            self._note_place()

    def _forget(self, gone: Iterable[int], which: str, border: int) -> None:
        """Remove parts, and the rows ``which`` (``<`` or ``>=``) those of the part ``border``."""
        run = self.connection.execute
        if self.layout.schema.key:
            run(f'DELETE FROM "_rows" WHERE "_part" {which} ?', (border,))
        else:
            run(f'DELETE FROM "_rows" WHERE rowid {which} ?', (self.parts[border].first_row,))
        run(f'DELETE FROM "_parts" WHERE "part" {which} ?', (border,))
        for part in gone:
            del self.parts[part]

    # ------------------------------------------------------------------ transactions

    def commit(self) -> None:
        """Make all changes durable. Waits for readers in other processes to end their queries."""
        with self._changing():
            self._note_place()
            while True:
                try:
                    self.connection.execute("COMMIT")
                    break
                except sqlite3.OperationalError as error:
                    if not is_busy(error):
                        raise
        self.uncommitted = 0
        self._committed = self.dispatched_to, dict(self.parts)

    def roll_back(self) -> None:
        """Undo the open transaction, as far as SQLite has not done that already."""
        if self.connection.in_transaction:
            try:
                self.connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise error_of(error, self.path) from error
        self.dispatched_to, parts = self._committed
        self.parts, self.uncommitted = dict(parts), 0

    def _note_place(self) -> None:
        values = (1, self.dispatched_to, self.layout.fingerprint)
        statement = 'INSERT OR REPLACE INTO "_place" VALUES (?, ?, ?, ?)'
        self.connection.execute(statement, (*values, checksum(*values)))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Begin a transaction if none is open; raise what SQLite's errors mean.

        Raises:
            DiskFrozenError: the store is closed, and another process may be its writer.
        """
        if self.disk.is_frozen:
            raise DiskFrozenError(self.path, "the store was closed")
        try:
            if not self.connection.in_transaction:
                self.connection.execute("BEGIN IMMEDIATE")
            yield
        except (sqlite3.Error, UnicodeError) as error:
            raise error_of(error, self.path) from error

    def close(self) -> None:
        """Close the file; changes that are not committed are lost."""
        self.connection.close()


def remove(path: str, disk: Disk) -> None:
    """Remove the file; first its journal, which would be rolled back into another file."""
    for each in (path + "-journal", path):
        if disk.exists(each):
            disk.remove(each)

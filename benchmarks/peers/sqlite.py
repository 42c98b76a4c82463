"""SQLite: a table of messages with an index by topic, queue and queue offset."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.workload import Row

_TABLE = """
    CREATE TABLE IF NOT EXISTS message (
        position INTEGER PRIMARY KEY,
        topic TEXT, queue_id INTEGER, queue_offset INTEGER,
        tags TEXT, keys TEXT, unique_key TEXT, body BLOB
    )
"""
_INDEX = "CREATE UNIQUE INDEX by_queue ON message (topic, queue_id, queue_offset)"
_INSERT = "INSERT INTO message VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"
_READ = """
    SELECT body FROM message
    WHERE topic = ? AND queue_id = ? AND queue_offset >= ? ORDER BY queue_offset LIMIT ?
"""


class Sqlite:
    """Does the work of log and consume queue: its appends include the index."""

    def __init__(self, directory: Path, *, durable: bool, indexed: bool = True) -> None:
        path = directory / "messages.db"
        fresh = not path.exists()
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        self._connection.execute(_TABLE)
        if fresh and indexed:
            self.make_index()
        self._next: defaultdict[tuple[str, int], int] = defaultdict(int)

    def append(self, row: Row) -> None:
        """One transaction of one row."""
        self._connection.execute(_INSERT, self._values(row))

    def append_many(self, rows: Sequence[Row]) -> None:
        """One transaction of many rows."""
        self._connection.execute("BEGIN")
        self._connection.executemany(_INSERT, map(self._values, rows))
        self._connection.execute("COMMIT")

    def bodies(self) -> Iterator[bytes]:
        """Yield all bodies by one query."""
        for (body,) in self._connection.execute("SELECT body FROM message ORDER BY position"):
            yield body

    def read(self, topic: str, queue_id: int, queue_offset: int, max_count: int) -> list[bytes]:
        """Return bodies of the next messages of one queue, through the index."""
        found = self._connection.execute(_READ, (topic, queue_id, queue_offset, max_count))
        return [body for (body,) in found]

    def make_index(self) -> None:
        """Index the existing rows by topic, queue and queue offset."""
        self._connection.execute(_INDEX)

    def close(self) -> None:
        """Close the connection; that also moves the WAL into the database."""
        self._connection.close()

    def _values(self, row: Row) -> tuple[object, ...]:
        topic, queue_id, tags, keys, unique_key, body = row
        queue_offset = self._next[topic, queue_id]
        self._next[topic, queue_id] = queue_offset + 1
        return topic, queue_id, queue_offset, tags, keys, unique_key, body

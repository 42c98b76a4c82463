"""persist-queue's ``SQLiteQueue``: pickles in a table of SQLite, one transaction each, flushed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.workload import Row


class SqlQueue:
    """One queue that commits every put and keeps messages that were read."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        import persistqueue

        if not durable:
            raise ValueError("it always flushes")
        # Without `auto_commit` reading moves a cursor; with it each read would delete a row in a
        # transaction of its own. A put commits either way.
        self._queue = persistqueue.SQLiteQueue(str(directory / "queue"), auto_commit=False)

    def append(self, row: Row) -> None:
        """One put."""
        self._queue.put(tuple(row))

    def append_many(self, rows: Sequence[Row]) -> None:
        """Not supported."""
        raise NotImplementedError

    def bodies(self) -> Iterator[bytes]:
        """All bodies, one query each."""
        for _ in range(self._queue.qsize()):
            yield self._queue.get(block=False)[-1]

    def close(self) -> None:
        """Close the connections."""
        self._queue.close()

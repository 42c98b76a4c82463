"""diskcache: a ``Deque``, which is a table of SQLite with pickled values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.workload import Row


class CachedDeque:
    """One deque of tuples."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        import diskcache

        cache = diskcache.Cache(
            str(directory / "deque"),
            eviction_policy="none",
            sqlite_synchronous=2 if durable else 1,  # FULL, NORMAL
        )
        self._deque = diskcache.Deque.fromcache(cache)

    def append(self, row: Row) -> None:
        """One transaction of one value."""
        self._deque.append(tuple(row))

    def append_many(self, rows: Sequence[Row]) -> None:
        """One transaction of many values."""
        with self._deque.transact():
            self._deque.extend(map(tuple, rows))

    def bodies(self) -> Iterator[bytes]:
        """Yield all bodies in order, and leave them in the store."""
        for value in self._deque:
            yield value[-1]

    def close(self) -> None:
        """Close the cache."""
        self._deque.cache.close()

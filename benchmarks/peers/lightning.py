"""LMDB: packed messages with a counter as key, without an index by queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.peers.packed import body_of, pack
from benchmarks.workload import Row

_MAP_SIZE = 16 << 30  # the file is sparse: this only reserves addresses


class Lightning:
    """One environment, keys of eight bytes that only grow (``append=True``)."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        import lmdb

        self._environment = lmdb.open(
            str(directory / "lmdb"), map_size=_MAP_SIZE, sync=durable, metasync=durable
        )
        self._next = 0

    def append(self, row: Row) -> None:
        """One transaction of one value."""
        key = self._next.to_bytes(8, "big")
        self._next += 1
        with self._environment.begin(write=True) as transaction:
            transaction.put(key, pack(row), append=True)

    def append_many(self, rows: Sequence[Row]) -> None:
        """One transaction, one call of the cursor."""
        first = self._next
        self._next += len(rows)
        items = [(key.to_bytes(8, "big"), pack(row)) for key, row in enumerate(rows, first)]
        with self._environment.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(items, append=True)

    def bodies(self) -> Iterator[bytes]:
        """Yield all bodies by one cursor."""
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            for value in cursor.iternext(keys=False, values=True):
                yield body_of(value)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

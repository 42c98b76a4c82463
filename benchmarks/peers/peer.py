"""`Peer`: the calls that each other store is adapted to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.workload import Row


class Peer(Protocol):
    """A store in ``directory``; with ``durable`` each append returns when it is on disk."""

    def __init__(self, directory: Path, *, durable: bool) -> None: ...

    def append(self, row: Row) -> None:
        """Store one message."""
        ...

    def append_many(self, rows: Sequence[Row]) -> None:
        """Store some messages in one transaction."""
        ...

    def bodies(self) -> Iterator[bytes]:
        """Yield the bodies of all messages in order of appending; may consume them."""
        ...

    def close(self) -> None:
        """Close it; when it is opened again, everything appended is there."""
        ...

"""persist-queue's ``Queue``: pickles in files of 100 messages.

It flushes a file to disk only when the file is full, and rewrites a small file of positions at
every put; reading takes messages out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.workload import Row


class FileQueue:
    """One queue with its defaults."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        import persistqueue

        if durable:
            raise ValueError("no setting of it flushes every put")
        path = str(directory / "queue")
        directory.joinpath("queue").mkdir(exist_ok=True)
        self._queue = persistqueue.Queue(path, tempdir=path)

    def append(self, row: Row) -> None:
        """One put."""
        self._queue.put(tuple(row))

    def append_many(self, rows: Sequence[Row]) -> None:
        """Not supported."""
        raise NotImplementedError

    def bodies(self) -> Iterator[bytes]:
        """Take all messages out."""
        get = self._queue.get_nowait
        for _ in range(self._queue.qsize()):
            yield get()[-1]

    def close(self) -> None:
        """Close the queue; its puts are saved, its reading position is not."""
        del self._queue

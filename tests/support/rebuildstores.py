"""Logs of several splits, for tests that build files from them once more."""

from __future__ import annotations

import reput

LOG = {"file_size": 1 << 20}
SPLIT = 300_000  # bytes; at least 1 MiB is taken where the log is small


def fill(store, count, first=0, of=lambda number: {}):
    """Put messages of all lengths up to 300 bytes into 15 queues; ``of`` says what else is in one.

    Args:
        store: where to put them.
        count: how many.
        first: number of the first.
        of: called with a message's number; more arguments of `reput.Message`.
    """
    store.put_many(
        [
            reput.Message(f"T{number % 5}", b"x" * (number % 300), number % 3, **of(number))
            for number in range(first, first + count)
        ]
    )

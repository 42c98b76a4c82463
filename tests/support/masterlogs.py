"""Logs of masters, made by a store: bytes with records, blanks and several files."""

from __future__ import annotations

from fakemaster import FILE_SIZE

import reput

CONFIG = {"commitlog": {"file_size": FILE_SIZE}}


def log_of(path, count, *, seed=0, start=0):
    """The bytes of a log of ``count`` messages, from a store at ``path``."""
    with reput.open(path, plugins=[], config=CONFIG) as store:
        for number in range(start, start + count):
            store.put(message(number, seed))
        return bytes_of(store)


def message(number, seed=0):
    body = b"%d " % number * (1 + (number * 7 + seed) % 60)
    return reput.Message(
        f"topic-{number % 3}", body, tags=f"t{number % 2}", keys=f"k{number}", queue_id=number % 2
    )


def bytes_of(store):
    """All bytes of a store's log."""
    log, parts = store.log, []
    for base in log.file_offsets:
        end = min(base + log.file_size, log.max_physical_offset)
        parts.append(log.read(base, end - base))
    return b"".join(parts)

"""Stores whose power is cut in tests, and what they do until then."""

from __future__ import annotations

import reput


def options_for(flush, plugins=(), **sections):
    """Of a store with small files; sections other than the log's are those of its plugins."""
    log = {"file_size": 4096, "flush": flush, **sections.pop("commitlog", {})}
    return {"plugins": list(plugins), "config": {"commitlog": log, **sections}}


def message(number, size=20, queue_count=1):
    """A message that tells its number, in one of two topics."""
    body = (b"%d:" % number).ljust(size, b"x")
    return reput.Message(f"T{number % 2}", body, number % queue_count, tags="TagA")


def one(witness, root):
    """A store that is closed behind its first message."""
    witness.open(root)
    witness.put(message(0))
    witness.close()

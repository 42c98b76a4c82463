"""What a followed store and its broker's have in common."""

from __future__ import annotations

from pathlib import Path

import reput


def log_bytes(directory: Path, end: int) -> dict[str, bytes]:
    """Files of a log up to its end; zeros behind it are left out."""
    found = {}
    for path in sorted((directory / "commitlog").iterdir()):
        base = int(path.name)
        if base < end:
            found[path.name] = path.read_bytes()[: end - base]
    return found


def answers(store: reput.Store, count: int, *, step: int = 50) -> list[list[object]]:
    """What plugins say of the messages of the topic ``orders``: by queue and by key."""
    queues = [
        (each.topic, each.queue_id, each.min_queue_offset, each.max_queue_offset)
        for each in store.queues()
        if each.topic == "orders"
    ]
    read = [
        (queue_id, message.queue_offset, bytes(message.body))
        for _, queue_id, _, end in queues
        for start in range(0, end, 32)
        for message in store.read("orders", queue_id, start, 32)
    ]
    keys = [
        [message.physical_offset for message in store.query("orders", f"k{at}").messages]
        for at in range(0, count, step)
    ]
    return [queues, read, keys]

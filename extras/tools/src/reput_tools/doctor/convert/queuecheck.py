"""Compares the queues of a converted store with the broker's queues."""

from __future__ import annotations

import reput

__all__ = ["other_queues"]

_READER = "consumequeue"
_SHOWN = 20


def other_queues(source: str, target: str, *, follow_links: bool) -> list[str]:
    """Name queues that have other queue offsets in plain files than in RocksDB.

    A topic that was deleted and created again begins again in RocksDB. Plain queues that are built
    from the log list the old messages, and only some of the new ones.

    Args:
        source: the directory with queues in RocksDB.
        target: the new store.
        follow_links: as for `reput.open`.
    """
    with (
        reput.open(source, "r", plugins=(_READER,), follow_links=follow_links) as old,
        reput.open(target, "r", plugins=(_READER,)) as new,
    ):
        before, after = _extents(old), _extents(new)
    found = [
        f"{topic}/{queue_id}: queue offsets {low} to {high} in RocksDB, and "
        f"{' to '.join(map(str, after.get((topic, queue_id), (0, 0))))} in plain files; the topic "
        "was deleted and created again, and its queue has old messages in place of new ones"
        for (topic, queue_id), (low, high) in sorted(before.items())
        if after.get((topic, queue_id)) != (low, high)
    ]
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"{len(found) - _SHOWN} further queues are like this"]
    return found


def _extents(store: reput.Store) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (each.topic, each.queue_id): (each.min_queue_offset, each.max_queue_offset)
        for each in store.queues()
    }

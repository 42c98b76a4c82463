"""Compares the queues of a converted store with the broker's queues."""

from __future__ import annotations

import reput

_READER = "consumequeue"
_SHOWN = 20
_OLD = (
    "the topic was deleted and created again, and its queue has old messages in place of new ones"
)
_GAPS = "the log lacks messages, and later ones have moved to their queue offsets"


def other_queues(source: str, target: str, *, follow_links: bool) -> list[str]:
    """Name queues that have other messages or queue offsets in plain files than in RocksDB.

    A topic that was deleted and created again begins again in RocksDB. Plain queues that are built
    from the log list the old messages, and only some of the new ones. Both may have the same queue
    offsets, so their first messages are compared, too.

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
        found = []
        for place, (low, high) in sorted(before.items()):
            extent = after.get(place, (0, 0))
            is_other = _first(old, place, low) != _first(new, place, extent[0])
            if is_other or extent != (low, high):
                found.append(
                    f"{place[0]}/{place[1]}: queue offsets {low} to {high} in RocksDB, and "
                    f"{extent[0]} to {extent[1]} in plain files; {_OLD if is_other else _GAPS}"
                )
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"{len(found) - _SHOWN} further queues are like this"]
    return found


def _extents(store: reput.Store) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (each.topic, each.queue_id): (each.min_queue_offset, each.max_queue_offset)
        for each in store.queues()
    }


def _first(store: reput.Store, place: tuple[str, int], queue_offset: int) -> object:
    """Return what tells a queue's first message from others; it may have moved in the log."""
    for each in store.read(*place, queue_offset, max_count=1).messages:
        return each.queue_offset, each.store_timestamp, each.born_timestamp, each.body
    return None

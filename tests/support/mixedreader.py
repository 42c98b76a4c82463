"""What somebody who reads a mixed store beside its writers does, and writes down.

Queues are followed by ``next_queue_offset``, messages are looked for by key and by time; whether
what came of it is right is for `mixedjudge` to say, who knows later what was there.
"""

from __future__ import annotations

import json
import os
import random
import time
import traceback
import zlib
from collections.abc import Callable
from typing import Any

import attrs
import mixedplan as plan

import reput
from reput.errors import NoReaderError, StoreNotFoundError

Note = Callable[..., object]


class Journal:
    """Lines of JSON in a file; each is whole or not there."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, event: str, **facts: Any) -> None:
        os.write(self._descriptor, json.dumps({"event": event, **facts}).encode() + b"\n")


@attrs.define(eq=False)
class Reader:
    """Follows all queues of a store, over several openings."""

    chance: random.Random
    note: Note
    """Takes an event and its facts."""
    places: dict[tuple[str, int], int] = attrs.field(factory=dict)
    """Where to go on, by queue."""

    def look(self, store: Any) -> None:
        """Read each queue on from where it was left, and ask for some messages."""
        try:
            queues = store.queues()
        except NoReaderError:
            return  # the plugins are not recorded yet
        for info in queues:
            self._follow(store, (info.topic, info.queue_id), info.min_queue_offset)
        if "schedule" in store.plugin_objects and self.chance.random() < 0.3:
            store.plugin("schedule").scheduled()
        if "transaction" in store.plugin_objects and self.chance.random() < 0.3:
            store.plugin("transaction").dangling()

    def _follow(self, store: Any, queue: tuple[str, int], first: int) -> None:
        at = self.places.get(queue, first)
        result = store.read(*queue, at, max_count=self.chance.choice((1, 8, 64)))
        seen = []
        for view, place in zip(result.messages, result.queue_offsets, strict=True):
            # Copies in compacted queues have other places.
            data = view.body if view.topic == plan.TOPIC_OF[plan.KEYED] else view.record
            seen.append([place, view.physical_offset, zlib.crc32(data)])
        holes = [[each.queue_offset, each.physical_offset, each.reason] for each in result.holes]
        if seen or holes or result.next_queue_offset != at:
            self.note(
                "read",
                queue=queue,
                at=at,
                next=result.next_queue_offset,
                seen=seen,
                status=result.status.name,
                extent=[result.min_queue_offset, result.max_queue_offset],
                holes=holes,
            )
        self.places[queue] = result.next_queue_offset
        if seen and "index" in store.plugin_objects and self.chance.random() < 0.3:
            view = self.chance.choice(result.messages)
            self._ask_for_key(store, view)
            self._ask_for_time(store, queue, view)

    def _ask_for_key(self, store: Any, view: Any) -> None:
        for key in view.properties.get("KEYS", "").split():
            for found in store.query(view.topic, key, limit=20):
                if key not in found.properties.get("KEYS", "").split() or found.topic != view.topic:
                    self.note("violation", text=f"asked for {view.topic} {key}: {found!r}")

    def _ask_for_time(self, store: Any, queue: tuple[str, int], view: Any) -> None:
        offset = store.offset_by_time(*queue, view.store_timestamp)
        if offset < 0:
            text = f"offset {offset} of {queue} by time {view.store_timestamp}"
            self.note("violation", text=text)


def look_later() -> None:
    """Let a process that nobody notifies look again for a store that another one makes.

    It is killed with the others, so no result of a test depends on how long this takes.
    """
    time.sleep(0.002)


def read(root: str, journal: str, seed: int) -> None:
    """The life of a process that reads; it is killed when nobody needs it any more."""
    notes = Journal(journal)
    reader = Reader(random.Random(seed), notes.note)
    while True:
        try:
            with reput.open(root, "r") as store:
                for _ in range(reader.chance.choice((1, 3, 30))):
                    reader.look(store)
        except StoreNotFoundError:
            look_later()
        except Exception:
            notes.note("violation", text=traceback.format_exc())
            return

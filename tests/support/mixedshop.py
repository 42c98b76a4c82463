"""A store with all first-party plugins, on one thread and a clock moved by hand, and its life.

Everything that it is told goes to a `Judge`, as the writers of `mixedwriter` tell theirs.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import attrs
import mixedplan as plan
from mixedjudge import Judge, Told
from mixedrest import check_back

import reput
from reput.files import Disk
from reput.log import Receipt
from reput_schedule import delayed
from reput_testing import ManualClock, QuickDisk

SECTIONS: Final[dict[str, dict[str, Any]]] = {
    "commitlog": {"file_size": plan.FILE_SIZE},
    "consumequeue": {"units_per_file": 7, "extend": True},
    "index": {"slots_per_file": 20, "items_per_file": 12},
    "filter": {"bit_maps": True},
    "schedule": {
        "delay_levels": plan.LEVELS,
        "precision_ms": 100,
    },
    "transaction": {
        "timeout_ms": 200,
        "check_interval_ms": 100,
    },
    "compaction": {
        "topics": ["latest"],
        "interval_ms": 5_000,
        "roll_ms": 0,
        "offset_map_size": 1 << 16,
    },
}


@attrs.define(eq=False)
class Shop:
    """The store, the one who uses it, and what that one was told."""

    root: Path
    disk: Disk
    clock: ManualClock = attrs.field(factory=ManualClock)
    judge: Judge = attrs.field(factory=Judge)
    chance: random.Random = attrs.field(factory=lambda: random.Random(7))
    floor: int = 0
    """Where the log begins at least."""
    store: Any = None
    _number: int = 0

    def open(self) -> None:
        """Open the store."""
        self.store = reput.open(
            self.root,
            plugins=plan.PLUGINS,
            config=SECTIONS,
            disk=self.disk,
            clock=self.clock,
            threads=False,
        )

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    # ------------------------------------------------------------------ one of each kind

    def plain(self) -> None:
        """Put a message that is seen at once."""
        name, message = self._message(plan.PLAIN)
        self._put(name, message)

    def level(self, level: int) -> None:
        """Put a message with a delay level."""
        name, message = self._message(plan.LEVEL)
        self.judge.told[name].level = level
        self._put(name, delayed(message, level=level))

    def timed(self, delay_ms: int) -> Receipt:
        """Put a message for a time."""
        name, message = self._message(plan.TIMED)
        due = self.clock() + delay_ms
        self.judge.told[name].due = due
        return self._put(name, delayed(message, deliver_at=due))

    def cancelled(self, delay_ms: int) -> None:
        """Put a message for a time, and cancel it."""
        receipt = self.timed(delay_ms)
        self.store.plugin("schedule").cancel(receipt)
        list(self.judge.told.values())[-1].cancelling = True

    def half(self, kind: str, *, ends: bool) -> None:
        """Prepare a message; end its transaction, or leave that to a check."""
        name, message = self._message(kind)
        half = self.store.plugin("transaction").prepare(message, group="shop")
        self.judge.told[name].half = half.physical_offset
        if ends:
            self.store.plugin("transaction").commit(
                half
            ) if kind == plan.COMMITTED else self.store.plugin("transaction").rollback(half)
            self.judge.told[name].is_ended = True

    def keyed(self, key: int) -> None:
        """Put a message of a topic that is compacted."""
        name, message = self._message(plan.KEYED, keys=f"k{key}")
        self._put(name, message)

    def _message(self, kind: str, keys: str | None = None) -> tuple[str, reput.Message]:
        self._number += 1
        name = f"0.0.{self._number}-{kind}"
        self.judge.told[name] = Told(kind)
        body = f"{name}:".encode() + self.chance.randbytes(self.chance.choice((10, 100, 400)))
        queue_id = self._number % plan.QUEUES
        topic = plan.TOPIC_OF[kind]
        tags = self.chance.choice((None, "TagA", "paid"))
        keys = keys or f"key-{name}"
        return name, reput.Message(topic, body, queue_id, tags=tags, keys=keys)

    def _put(self, name: str, message: reput.Message) -> Receipt:
        receipt = self.store.put(message)
        self.judge.told[name].place = receipt.physical_offset, receipt.queue_offset
        return receipt

    # ------------------------------------------------------------------ longer stories

    def some_of_all(self) -> None:
        """Put messages of every kind."""
        for number in range(4):
            self.plain()
            self.level(1 + number % 3)
            self.timed((0, 250, 900, 5_000)[number])
            self.half(plan.COMMITTED, ends=number % 2 == 0)
            self.half(plan.ROLLED_BACK, ends=number % 2 == 1)
            self.keyed(number % 3)
            self.keyed(number % 2)
        self.cancelled(3_000)

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, and have done what is due meanwhile."""
        end = self.clock() + duration_ms
        for _ in range(200):
            due = self.store.work()
            if due is None or due > end:
                break
            self.clock.now = max(self.clock.now, due)
        self.clock.now = end

    def live(self) -> None:
        """A life, up to a moment at which a bit of everything is under way."""
        self.open()
        self.store.plugin("transaction").on_check(check_back)
        self.some_of_all()
        self.pass_time(700)
        self.store.flush()
        self.some_of_all()
        self.pass_time(700)
        self.compact()
        self.store.flush()
        self.clean(3)
        self.some_of_all()
        self.store.wait_dispatched()
        self.clock.advance(300)  # a few are due, and not delivered yet

    def learn(self) -> None:
        """Let the judge know what is in the log, before any of it is removed."""
        with reput.open(self.root, "r", disk=QuickDisk()) as store:
            self.judge.take(store)

    def compact(self) -> None:
        """Compact what can be compacted."""
        self.store.plugin_objects["compaction"].compact()

    def clean(self, file_count: int) -> None:
        """Remove the head of the log as far as nobody needs it."""
        self.learn()
        report = self.store.trim_log(self.store.log.file_offsets[-file_count:][0])
        self.floor = max(self.floor, report.min_physical_offset)

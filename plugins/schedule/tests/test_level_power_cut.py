"""The power is cut while messages are parked and delivered: each comes, once."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

import reput
from reput_schedule import delayed
from reput_testing import ManualClock, PowerCuts, QuickDisk
from reput_testing.logs.clock import NOON

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
CONFIG = {
    "commitlog": {"file_size": 4_096},
    "consumequeue": {"units_per_file": 20},
    "schedule": {"delay_levels": "1s 3s"},
}
PLUGINS = ["consumequeue", "schedule"]


@attrs.define(eq=False)
class Life:
    """A store and what was put into it; `note` goes with every power cut."""

    disk: object = None
    store: reput.Store | None = None
    ends: dict[bytes, int] = attrs.field(factory=dict)
    """Physical offset behind each parked message, by its body."""
    clock: ManualClock = attrs.field(factory=ManualClock)

    def note(self) -> tuple[tuple[bytes, bool], ...]:
        flushed = 0 if self.store is None else self.store.log.flushed_offset
        return tuple((body, end <= flushed) for body, end in self.ends.items())

    def open(self, root: str) -> None:
        self.store = reput.open(
            root, plugins=PLUGINS, config=CONFIG, disk=self.disk, threads=False, clock=self.clock
        )

    def put(self, first: int, stop: int, level: int) -> None:
        for number in range(first, stop):
            body = b"%-200d" % number
            receipt = self.store.put(delayed(reput.Message("orders", body), level=level))
            self.ends[body] = receipt.end_offset

    def pass_time(self, duration_ms: int) -> None:
        self.clock.advance(duration_ms)
        for _ in range(3):
            self.store.work()


def run(life: Life, root: str) -> None:
    life.open(root)
    life.put(0, 3, level=1)
    life.put(3, 5, level=2)
    life.pass_time(1_000)
    life.store.flush()
    life.put(5, 8, level=1)
    life.pass_time(1_000)
    life.store.flush()
    life.pass_time(1_000)
    life.store.close()
    life.open(root)
    life.put(8, 10, level=1)
    life.pass_time(1_000)
    life.store.flush()


def views(store: reput.Store, topic: str) -> list[reput.MessageView]:
    """Sound messages of a topic; a record's properties may be torn, as documented."""
    return [
        view
        for batch in store.scan(check_crc=True)
        for view in map(batch.message, range(len(batch)))
        if view.topic == topic and not view.properties_text.endswith(b"\0")
    ]


def check(life: Life, point, root: str) -> None:
    clock = ManualClock(NOON + 3_600_000)
    options = {"plugins": PLUGINS, "config": CONFIG, "disk": QuickDisk(), "threads": False}
    with reput.open(root, clock=clock, **options) as store:
        for _ in range(6):
            store.work()
            clock.advance(1_000)
        assert store.report()["plugins"]["schedule"]["delivers"]
        sent = Counter(view.body for view in views(store, "orders"))
        parked = {view.body for view in views(store, SCHEDULE)}
        assert max(sent.values(), default=1) == 1, "a message came twice"
        # The other way round: a parked message may be lost whose delivered one is not.
        assert parked <= set(sent), "what is parked has not come"
        assert set(sent) <= {body for body, _ in point.note} | parked
        durable = {body for body, is_durable in point.note if is_durable}
        assert durable <= parked, "a message that was on disk is gone"
        end = store.log.max_physical_offset

    with reput.open(root, clock=clock, **options) as store:
        store.work()
        assert store.log.max_physical_offset == end, "it came again at the next opening"


@pytest.mark.proof
def test_whatever_a_power_cut_leaves_each_message_comes_once(tmp_path, record_property):
    cuts = PowerCuts(tmp_path, most=12, random_count=2, tries=50)

    cuts.live(Life(), run, check)

    record_property("crash states", cuts.tried_count)
    cuts.check_tried(at_least=40)

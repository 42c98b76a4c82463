"""Transactions under power cuts: all or nothing, never twice, never against what was decided."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import attrs
import pytest
from openstores import messages_in

import reput
from reput_testing import ManualClock, PowerCuts, QuickDisk
from reput_testing.logs.clock import NOON
from reput_transaction import HalfMessage

pytestmark = pytest.mark.sizes(transaction={"snapshot_size": 4_096, "op_batch_interval_ms": 10})

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TOPICS = ("orders", "payments")
CONFIG = {
    "commitlog": {"file_size": 4096},
    "consumequeue": {"units_per_file": 20},
    "transaction": {"keep_hours": 800_000},
}
PLUGINS = ["consumequeue", "transaction"]


@attrs.define(eq=False)
class Fate:
    """What was promised of one transaction."""

    bodies: tuple[bytes, ...]
    stage: str = "beginning"
    end_offset: int | None = None
    """Behind what the last call has put."""

    def is_durable(self, flushed: int) -> bool:
        return self.end_offset is not None and self.end_offset <= flushed


@attrs.define(eq=False)
class Life:
    """A store and what happened to its transactions; `note` goes with every power cut."""

    disk: object = None
    store: reput.Store | None = None
    fates: list[Fate] = attrs.field(factory=list)
    clock: ManualClock = attrs.field(factory=ManualClock)
    durable: set[int] = attrs.field(factory=set)

    def note(self) -> tuple[tuple[tuple[bytes, ...], str, bool], ...]:
        flushed = 0 if self.store is None else self.store.log.flushed_offset
        return tuple(
            (fate.bodies, fate.stage, fate.is_durable(flushed) or self.store is None)
            for fate in self.fates
        )

    def open(self, root: str) -> reput.Store:
        self.store = reput.open(
            root, plugins=PLUGINS, config=CONFIG, disk=self.disk, threads=False, clock=self.clock
        )
        return self.store

    def transact(self, name: str, count: int, end: str) -> None:
        fate = Fate(tuple(b"%s%d" % (name.encode(), n) for n in range(count)))
        self.fates.append(fate)
        transaction = self.store.plugin("transaction").transaction(group="g")
        for number, body in enumerate(fate.bodies):
            topic = TOPICS[number % 2]
            # More than a sector: a commit of several is spread over some that may be lost.
            transaction.put(reput.Message(topic, body, properties={"pad": "x" * 150}))
        fate.stage, last = "prepared", transaction.halves[-1]
        fate.end_offset = last.physical_offset + last.record.size
        if end == "nothing":
            return
        fate.stage, fate.end_offset = f"{end}ing", None
        if end == "commit":
            receipt = transaction.commit()
            fate.end_offset = receipt.end_offset
        else:
            transaction.roll_back()
            fate.end_offset = self.store.log.max_physical_offset
        fate.stage = f"{end}ed"

    def step(self) -> None:
        self.store.wait_dispatched()
        self.clock.advance(20)
        self.store.work()


def run(life: Life, root: str) -> None:
    life.open(root)
    life.transact("a", 3, "commit")
    life.transact("b", 2, "roll_back")
    life.step()
    life.transact("c", 1, "nothing")
    life.store.flush()
    life.transact("d", 4, "commit")
    life.step()
    life.transact("e", 1, "commit")


def visible(store: reput.Store) -> Counter[bytes]:
    return Counter(message.body for topic in TOPICS for message in messages_in(store, topic))


def settle(store: reput.Store, clock: ManualClock, passes: int = 8) -> None:
    for _ in range(passes):
        store.wait_dispatched()
        store.work()
        clock.advance(31_000)


def is_whole(half: HalfMessage) -> bool:
    """Whether it was written to its end: a record's last sectors may be lost, as documented."""
    return half.topic is not None


def check(life: Life, point, root: str) -> None:
    clock = ManualClock(NOON + 3_600_000)
    options = {"plugins": PLUGINS, "config": CONFIG, "disk": QuickDisk(), "threads": False}
    with reput.open(root, clock=clock, **options) as store:
        settle(store, clock, 3)
        seen = visible(store)
        open_bodies = Counter(
            half.body for half in store.plugin("transaction").dangling() if is_whole(half)
        )
        check_fates(point.note, seen, open_bodies)

        store.plugin("transaction").on_check(lambda half: "commit")
        settle(store, clock)
        after = visible(store)
        assert max(after.values(), default=0) <= 1, "committed twice"
        assert set(open_bodies) <= set(after), "a check's commit was lost"
        assert seen - after == Counter(), "something visible went away"
        assert [half for half in store.plugin("transaction").dangling() if is_whole(half)] == []
        store.flush()

    with reput.open(root, clock=clock, **options) as store:
        settle(store, clock, 3)
        assert visible(store) == after, "another opening changed what is visible"
        check_rocketmqs_view(store, Path(root))


def check_fates(note, seen: Counter[bytes], open_bodies: Counter[bytes]) -> None:
    for bodies, stage, is_durable in note:
        here = [body for body in bodies if seen[body]]
        waiting = [body for body in bodies if open_bodies[body]]
        assert all(seen[body] <= 1 for body in bodies), f"{bodies} {stage}: visible twice"
        assert len(here) in (0, len(bodies)), f"{bodies} {stage}: a part is visible: {here}"
        assert not (here and waiting), f"{bodies} {stage}: visible, and waiting still"
        if stage in ("prepared", "beginning") or stage.startswith("roll_back"):
            assert not here, f"{bodies} {stage}: visible"
        if stage == "committed" and is_durable:
            assert here, f"{bodies} {stage} and durable: lost"
        if stage == "prepared" and is_durable:
            assert len(waiting) == len(bodies), f"{bodies} {stage} and durable: not waiting"
        if stage == "roll_backed" and is_durable:
            assert not waiting, f"{bodies} {stage} and durable: waiting again"


def check_rocketmqs_view(store: reput.Store, root: Path) -> None:
    """Who knows queues and consumer offsets only would check nothing again."""
    path = root / "config" / "consumerOffset.json"
    text = path.read_text() if path.exists() else "{}"
    table = json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', text)).get("offsetTable", {})
    first_half, first_op = (
        table.get(f"{topic}@CID_RMQ_SYS_TRANS", {}).get("0", 0) for topic in (HALF, OP)
    )
    marked = {
        int(part)
        for message in messages_in(store, OP, 0, first_op)
        for part in message.body.split(b",")
        if part
    }
    for half in messages_in(store, HALF, 0, first_half):
        is_torn = half.properties_text.endswith(b"\0")
        assert half.queue_offset in marked or is_torn, f"{half} would be checked"


@pytest.mark.shows("transaction")
def test_whatever_a_power_cut_leaves_transactions_are_whole(tmp_path, record_property):
    cuts = PowerCuts(tmp_path, most=12, random_count=2, tries=40)

    cuts.live(Life(), run, check)

    record_property("crash states", cuts.tried_count)
    cuts.check_tried(at_least=30)

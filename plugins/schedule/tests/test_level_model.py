"""Random puts, clock jumps, kills and power cuts against a plain model of delay levels."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import reput
from reput_schedule import delayed
from reput_testing import ManualClock, QuickDisk

LEVELS = "1s 3s 10s 5m"
DELAYS = (1_000, 3_000, 10_000, 300_000)
FILE_SIZE = 8_192


pytestmark = [
    pytest.mark.sizes(schedule={"timer_log_file_size": 4_096}),
    pytest.mark.shows("delayed"),
]


@attrs.define
class Parked:
    """A message that was put with a level."""

    delay_ms: int
    forward: int
    """How far the clock had gone forward by then, in all."""
    physical_offset: int
    seen: bool = False


class Levels(RuleBasedStateMachine):
    """One store, its clock, and what is expected of it."""

    @initialize(flush=st.sampled_from(["async", "sync"]))
    def begin(self, flush):
        self.directory = Path(tempfile.mkdtemp())
        self.clock = ManualClock()
        self.forward = 0
        self.flush_mode = flush
        self.parked: dict[int, Parked] = {}
        self.number = 0
        self.lives = 0
        self.store = self.opened(self.directory / "0")

    def opened(self, root):
        config = {
            "commitlog": {
                "file_size": FILE_SIZE,
                "max_message_size": 2_048,
                "flush": self.flush_mode,
            },
            "schedule": {"delay_levels": LEVELS},
            "consumequeue": {"units_per_file": 20},
        }
        return reput.open(
            root,
            plugins=["consumequeue", "schedule"],
            config=config,
            threads=False,
            clock=self.clock,
            disk=QuickDisk(),
        )

    # ------------------------------------------------------------------ what happens

    @rule(level=st.integers(1, 5), queue_id=st.integers(0, 1), size=st.integers(0, 400))
    def put(self, level, queue_id, size):
        self.put_all([self.message(level, queue_id, size)])

    @rule(levels=st.lists(st.integers(1, 4), min_size=1, max_size=12))
    def put_many(self, levels):
        self.put_all([self.message(level, 0, 10) for level in levels])

    def message(self, level, queue_id, size):
        self.number += 1
        body = b"%d %s" % (self.number, b"x" * size)
        return delayed(reput.Message("orders", body, queue_id, tags="t"), level=level)

    def put_all(self, messages):
        receipts = self.store.put_many(messages)
        for message, receipt in zip(messages, receipts, strict=True):
            delay = DELAYS[min(int(message.properties["DELAY"]), 4) - 1]
            number = int(message.body.split()[0])
            self.parked[number] = Parked(delay, self.forward, receipt.physical_offset)

    @rule(size=st.integers(0, 1_000))
    def put_something_else(self, size):
        self.store.put(reput.Message("others", b"x" * size))

    @rule(duration=st.sampled_from([1, 500, 1_000, 3_000, 10_000, 60_000, 300_000]))
    def advance(self, duration):
        self.clock.advance(duration)
        self.forward += duration

    @rule(jump=st.integers(-86_400_000, 86_400_000) | st.integers(-5_000, 5_000))
    def jump(self, jump):
        self.clock.advance(jump)
        self.forward += max(jump, 0)

    @rule(times=st.integers(1, 4))
    def work(self, times):
        for _ in range(times):
            self.store.work()

    @rule()
    def flush(self):
        self.store.flush()

    @rule()
    def reopen(self):
        root = self.store.root
        self.store.close()
        self.store = self.opened(root)

    @rule(dispatched=st.booleans(), loses_queues=st.booleans())
    def kill(self, dispatched, loses_queues):
        """The process is gone; what it wrote is there."""
        if dispatched:
            self.store.wait_dispatched()
        root = self.copied()
        if loses_queues:
            shutil.rmtree(root / "consumequeue", ignore_errors=True)
        self.store.close()
        self.store = self.opened(root)

    @rule()
    def cut_the_power(self):
        """What was not flushed of the log is gone."""
        flushed = self.store.log.flushed_offset
        root = self.copied()
        for path in (root / "commitlog").iterdir():
            keep = min(max(flushed - int(path.name), 0), FILE_SIZE)
            path.write_bytes(path.read_bytes()[:keep].ljust(FILE_SIZE, b"\0"))
        self.store.close()
        self.store = self.opened(root)
        kept = {view.physical_offset for view in self.views() if view.topic != "orders"}
        gone = [n for n, each in self.parked.items() if each.physical_offset not in kept]
        assert self.flush_mode == "async" or not gone
        for number in gone:
            del self.parked[number]
        sent = self.sent()
        for number, each in self.parked.items():
            each.seen = each.seen and sent[number] > 0  # its copy may be gone: it comes again

    def copied(self):
        self.lives += 1
        root = self.directory / str(self.lives)
        shutil.copytree(self.store.root, root)
        return root

    # ------------------------------------------------------------------ what must hold

    def views(self):
        return [batch.message(row) for batch in self.store.scan() for row in range(len(batch))]

    def sent(self):
        return Counter(int(view.body.split()[0]) for view in self.views() if view.topic == "orders")

    @invariant()
    def nothing_comes_twice_or_early(self):
        if not hasattr(self, "store"):
            return
        for number, count in self.sent().items():
            each = self.parked[number]
            assert count == 1, f"message {number} came {count} times"
            if not each.seen:
                each.seen = True
                assert self.forward - each.forward >= each.delay_ms, f"{number} came too early"

    def teardown(self):
        if not hasattr(self, "store"):
            return
        try:
            self.everything_comes_in_the_end()
            self.store.close()
        finally:
            shutil.rmtree(self.directory)

    def everything_comes_in_the_end(self):
        begun, due, calls = self.forward, self.store.work(), 1
        while due is not None:
            step = max(due - self.clock(), 0)
            self.clock.advance(step)
            self.forward += step
            self.nothing_comes_twice_or_early()
            due, calls = self.store.work(), calls + 1
            # A clock that was set back delays by as much, and by no more than the level itself.
            assert self.forward - begun <= 2 * max(DELAYS), "they never come"
            assert calls < 1_000, "it asks to be called for ever"
        self.nothing_comes_twice_or_early()
        assert set(self.sent()) == set(self.parked)
        assert self.store.plugin("schedule").scheduled().message_count == 0


TestLevels = Levels.TestCase
TestLevels.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

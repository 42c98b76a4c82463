"""A message that is transactional and delayed: it is committed first, and delivered then."""

from __future__ import annotations

import pytest

import reput
from reput_schedule import delayed
from reput_testing import ManualClock

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
CONFIG = {"commitlog": {"file_size": 65_536}}
PLUGINS = ["consumequeue", "schedule", "transaction"]


class Steps:
    def __init__(self, root):
        self.root, self.clock = root, ManualClock()
        self.open()

    def open(self):
        self.store = reput.open(
            self.root, plugins=PLUGINS, config=CONFIG, clock=self.clock, threads=False
        )

    def work_for(self, duration_ms):
        end = self.clock.now + duration_ms
        while (due := self.store.work()) is not None and due <= end:
            self.clock.now = max(self.clock.now, due)
        self.clock.now = end

    def read(self, topic, queue_id=0):
        self.store.wait_dispatched()
        return list(self.store.read(topic, queue_id, 0, 1_000))


@pytest.fixture
def steps(tmp_path):
    made = Steps(tmp_path / "store")
    yield made
    made.store.close()


LATER = {"level": {"level": 3}, "time": {"delay_ms": 10_000}}


@pytest.mark.parametrize("kind", LATER)
def test_a_delay_begins_with_the_commit(steps, kind):
    message = delayed(reput.Message("orders", b"a", tags="t"), **LATER[kind])
    half = steps.store.plugin("transaction").prepare(message)
    assert half.record.topic == HALF

    steps.work_for(60_000)
    assert steps.read("orders") == []
    steps.store.plugin("transaction").commit(half)
    steps.work_for(5_000)
    assert steps.read("orders") == []
    steps.work_for(20_000)

    (found,) = steps.read("orders")
    assert (found.body, found.tags) == (b"a", "t")
    assert steps.store.plugin("transaction").dangling() == []
    assert len(steps.read(HALF)) == 1


@pytest.mark.parametrize("kind", LATER)
def test_a_delayed_message_that_is_rolled_back_is_never_delivered(steps, kind):
    half = steps.store.plugin("transaction").prepare(
        delayed(reput.Message("orders", b"a"), **LATER[kind])
    )

    steps.store.plugin("transaction").rollback(half)
    steps.work_for(120_000)

    assert steps.read("orders") == []
    assert steps.read(SCHEDULE) == []


def test_a_block_may_hold_both_and_is_committed_once_whatever_is_reopened(steps):
    with steps.store.plugin("transaction").transaction() as transaction:
        transaction.put(delayed(reput.Message("orders", b"later"), level=3))
        transaction.put(reput.Message("orders", b"now"))

    assert [message.body for message in steps.read("orders")] == [b"now"]
    steps.store.close()
    steps.open()
    steps.work_for(120_000)
    steps.store.close()
    steps.open()
    steps.work_for(120_000)

    assert [message.body for message in steps.read("orders")] == [b"now", b"later"]
    assert steps.store.plugin("transaction").dangling() == []


def test_a_half_message_that_is_checked_is_not_delayed(steps):
    steps.store.plugin("transaction").prepare(delayed(reput.Message("orders", b"a"), level=1))
    steps.store.plugin("transaction").on_check(lambda half: None)

    steps.work_for(70_000)

    assert [message.topic for message in steps.read(HALF)] == [HALF] * 3
    assert steps.read(SCHEDULE) == []

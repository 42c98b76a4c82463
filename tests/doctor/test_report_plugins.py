"""A report says of delays and transactions what the plugins that keep them say."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import reput
from reput import Message
from reput_schedule import delayed
from reput_tools.doctor import make_report

HOUR_MS: Final = 3_600_000
NOW: Final = 1_790_000_000_000


class Clock:
    """Stands still until it is moved."""

    now = NOW

    def __call__(self) -> int:
        return self.now


def test_delayed_messages_are_those_that_the_plugin_lists(tmp_path: Path) -> None:
    clock = Clock()
    plugins = ("consumequeue", "schedule")
    with reput.open(tmp_path / "store", plugins=plugins, clock=clock, threads=False) as store:
        for number in range(5):
            store.put(delayed(Message(topic="t", body=b"x"), level=17 + number % 2))
        for number in range(7):
            at = NOW + HOUR_MS * (number + 1)
            store.put(delayed(Message(topic="t", body=b"x"), deliver_at=at))
        store.wait_dispatched()
        store.work()
        clock.now += 5_000
        store.work()
        scheduled = store.plugin("schedule").scheduled()
        by_level = {each.level: each.message_count for each in scheduled.levels}

    found = make_report(tmp_path / "store", clock=clock)

    assert {each.level: each.waiting for each in found.delay_levels} == {17: 3, 18: 2} == by_level
    assert found.delay_levels[0].waiting_since_timestamp == NOW
    assert found.timer is not None
    assert (found.timer.waiting, found.timer.overdue, found.timer.not_on_wheel) == (7, 0, 0)
    assert found.timer.first_due_timestamp == NOW + HOUR_MS


def test_open_transactions_are_those_that_the_plugin_lists(tmp_path: Path) -> None:
    clock = Clock()
    plugins = ("consumequeue", "transaction")
    with reput.open(tmp_path / "store", plugins=plugins, clock=clock, threads=False) as store:
        transactions = store.plugin("transaction")
        halves = [
            transactions.prepare(Message(topic="orders", body=b"%d" % number), group="shop")
            for number in range(9)
        ]
        store.wait_dispatched()
        for half in halves[::3]:
            transactions.commit(half)
        transactions.rollback(halves[1])
        store.wait_dispatched()
        dangling = [half.physical_offset for half in transactions.dangling()]

    found = make_report(tmp_path / "store", clock=clock).transactions

    assert found.open_count == len(dangling) == 5
    assert [each.physical_offset for each in found.oldest] == sorted(dangling)
    assert {(each.topic, each.group) for each in found.oldest} == {("orders", "shop")}
    assert found.half_count == 9

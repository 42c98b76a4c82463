"""Transactions when a flush of the plugin fails, and the plugin is resumed."""

from __future__ import annotations

import errno

import pytest

import reput
from reput_testing import FaultyDisk, ManualClock
from reput_transaction import TransactionPlugin

pytestmark = [
    pytest.mark.sizes(transaction={"snapshot_size": 4_096}),
    pytest.mark.shows("failed-plugin-flush"),
]


def test_what_was_committed_behind_a_failed_flush_is_not_asked_about(tmp_path):
    asked, clock, disk = [], ManualClock(), FaultyDisk()
    options = {
        "plugins": ["consumequeue", "transaction"],
        "config": {
            "commitlog": {"file_size": 65_536},
        },
        "clock": clock,
        "threads": False,
    }
    with reput.open(tmp_path / "store", disk=disk, **options) as store:
        store.put(reput.Message("orders", b"x" * 5_000))
        half = store.plugin("transaction").prepare(reput.Message("orders", b"1"))
        store.wait_dispatched()
        store.flush()
        store.plugin("transaction").commit(half)
        for _ in range(2):
            store.put(reput.Message("orders", b"x" * 5_000))
        store.wait_dispatched()
        disk.plan(1, error=errno.EIO, operations={"flush"}, below="/transaction/")
        store.flush()
        assert disk.failed
        disk.mend()
    clock.advance(3_600_000)

    plugin = TransactionPlugin()
    options["plugins"] = ["consumequeue", plugin]
    with reput.open(tmp_path / "store", disk=disk, **options) as store:
        store.plugin("transaction").on_check(lambda half: asked.append(half.body) or "rollback")
        for _ in range(5):
            plugin.reput_work(now=clock())
        for _ in range(5):
            store.work()

    assert asked == []

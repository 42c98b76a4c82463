"""Tests of the plugin: the rules for all plugins, and what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

import reput
from reput_counter import CounterPlugin
from reput_testing import CrashContract, KillContract, ManualClock, PluginContract

MINUTE = 60_000


class Rules:
    """What the rules for all plugins have to know about this one."""

    plugin_name = "counter"
    same_files = False  # equal logs give equal rows, in files that may differ

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.contract_state()  # all rows, sorted


class TestContract(Rules, PluginContract):
    pass


@pytest.mark.full
class TestCrashes(Rules, CrashContract):
    pass


@pytest.mark.full
class TestKilled(Rules, KillContract):
    pass


def test_messages_are_counted_by_topic_tag_and_minute(tmp_path: Path) -> None:
    clock = ManualClock(10 * MINUTE)
    with reput.open(tmp_path, plugins=["counter"], clock=clock) as store:
        store.put(reput.Message("orders", b"12345", tags="new"))
        store.put(reput.Message("orders", b"1", tags="new"))
        store.put(reput.Message("orders", b"12"))
        clock.advance(MINUTE)
        store.put(reput.Message("orders", b"123", tags="new"))
        store.wait_dispatched()

        counts = store.plugin("counter").query(
            "SELECT topic, tag, minute, messages, body_size FROM counter ORDER BY 1, 2, 3"
        )

    assert counts == [
        ("orders", "", 10, 1, 2),
        ("orders", "new", 10, 2, 6),
        ("orders", "new", 11, 1, 3),
    ]

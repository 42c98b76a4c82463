"""The counter of fifteen lines keeps every rule for plugins, and counts."""

from __future__ import annotations

import ast
from pathlib import Path

from counter import CounterPlugin
from hypothesis import strategies as st

import reput
from reput_testing import CrashContract, KillContract, ManualClock, PluginContract, strategies

QUERY = "SELECT topic, tag, minute, messages, body_size FROM counter ORDER BY 1, 2, 3"
MINUTE = 60_000


class TestContract(PluginContract):
    plugin_type = CounterPlugin
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.query(QUERY)


class SmallParts(CounterPlugin):
    """Parts of the log of a few messages each."""

    name = "counter"
    part_size = 1_000


class TestContractInParts(TestContract):
    plugin_type = SmallParts

    def messages(self) -> st.SearchStrategy[reput.Message]:
        return strategies.messages()


class TestCrashes(CrashContract):
    plugin_type = CounterPlugin
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.query(QUERY)


class TestKilled(KillContract):
    plugin_type = SmallParts
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.query(QUERY)


def test_it_counts_by_topic_tag_and_minute(tmp_path):
    clock = ManualClock(10 * MINUTE)
    with reput.open(tmp_path, plugins=[CounterPlugin()], clock=clock) as store:
        store.put(reput.Message("orders", b"12345", tags="new"))
        store.put(reput.Message("orders", b"1", tags="new"))
        store.put(reput.Message("orders", b"12"))
        clock.advance(MINUTE)
        store.put(reput.Message("orders", b"123", tags="new"))
        store.wait_dispatched()

        counts = store.plugin("counter").query(QUERY)

    assert counts == [
        ("orders", "", 10, 1, 2),
        ("orders", "new", 10, 2, 6),
        ("orders", "new", 11, 1, 3),
    ]


def test_it_has_fifteen_lines_at_most():
    path = Path(__file__).parents[2] / "examples" / "counter.py"
    texts = {
        line
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        for line in [node.body[0].lineno]
    }

    lines = [
        line
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.strip() and number not in texts
    ]

    assert len(lines) <= 15

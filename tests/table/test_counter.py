"""The counter of fifteen lines keeps every rule for plugins, in parts of a few messages, too."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from hypothesis import strategies as st

from reput_counter import CounterPlugin
from reput_testing import CrashContract, KillContract, PluginContract, SmallLog
from reput_testing.logs import strategies


class SmallParts(CounterPlugin):
    """Parts of the log of a few messages each."""

    name = "counter"
    part_size = 1_000


class TestContract(PluginContract):
    plugin_type = SmallParts
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.contract_state()

    def logs(self) -> st.SearchStrategy[SmallLog]:
        return strategies.logs(message=strategies.messages())


class TestCrashes(CrashContract):
    plugin_type = SmallParts
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.contract_state()


class TestKilled(KillContract):
    plugin_type = SmallParts
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.contract_state()


def test_it_has_fifteen_lines_at_most():
    """Without texts, and without the messages that its tests send."""
    path = Path(inspect.getfile(CounterPlugin))
    messages = inspect.getsource(CounterPlugin.contract_messages).splitlines()
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

    assert len(lines) - (len(messages) - 1) <= 15  # one of them is a text

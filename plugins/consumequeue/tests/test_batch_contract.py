"""Batch queues keep what every plugin promises: here all topics have them."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import pytest

from reput.dispatch import pluginopener
from reput.plugin import StoreContext
from reput.store.directory import directorycheck
from reput_consumequeue.batch import batchqueues
from reput_testing import PluginContract
from reput_testing.contract import driver
from reput_tools.offline.rebuilder import rebuildworker


class Everything(frozenset[str]):
    """The set of all topics."""

    def __contains__(self, topic: object) -> bool:
        return True


EVERYTHING = Everything({"orders"})


class TestContract(PluginContract):
    plugin_name = "consumequeue"
    # As for plain queues.
    undetectable = frozenset({"garbled", "zeroed", "removed"})
    undetectable_to_readers = frozenset({"emptied"})
    config: ClassVar = {}

    @pytest.fixture(autouse=True)
    def all_topics(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (driver, rebuildworker):
            context = functools.partial(StoreContext, batch_topics=EVERYTHING)
            monkeypatch.setattr(module, "StoreContext", context)
        monkeypatch.setattr(
            pluginopener,
            "StoreContext",
            lambda **facts: StoreContext(**{**facts, "batch_topics": EVERYTHING}),
        )
        for module in (directorycheck, batchqueues):
            monkeypatch.setattr(module, "batch_topics", lambda *_: EVERYTHING)
        monkeypatch.setattr(batchqueues, "UNITS_PER_FILE", 10)

    def files_of(self, root: str) -> list[str]:
        return [f"{root}/batchconsumequeue"]

    def state(self, plugin: Any) -> object:
        """All queues' extents and units."""
        plugin.reput_queues()  # a reader looks at the files then
        return {
            key: (
                queue.extent,
                [unit for part in queue.units(queue.min_offset) for unit in part.tolist()],
            )
            for key, queue in plugin.queues.items()
            if queue.extent[1] > 0
        }

    def trimmed_state(self, plugin: Any) -> object:
        """Queues with messages: one whose messages were all trimmed keeps its next offset."""
        return {key: found for key, found in self.state(plugin).items() if found[1]}

"""Killed writers: queues are what the log says, whatever a process was doing when it died."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from reput.plugin import installed
from reput_testing import CrashContract, KillContract

pytestmark = [pytest.mark.proof, pytest.mark.shows("kill")]


class TestCrashesOfFilesThatGrow(CrashContract):
    plugin_name = "consumequeue"
    config: ClassVar = {"units_per_file": 3}
    grows = True

    def state(self, plugin: Any) -> object:
        """Extent of each queue; a crash may leave an empty one."""
        return {
            (info.topic, info.queue_id): (info.min_queue_offset, info.max_queue_offset)
            for info in plugin.reput_queues()
            if info.max_queue_offset
        }


class TestKilled(KillContract):
    plugin_name = "consumequeue"
    config: ClassVar = {"units_per_file": 30}
    grows = True
    kills = 60
    rebuild_every = 3  # the loop itself reads all queues each time
    beside = frozenset(found.name for found in installed())

    def state(self, plugin: Any) -> object:
        """Extent of each queue; the loop reads the messages, and the bytes are compared, too."""
        return {
            (info.topic, info.queue_id): (info.min_queue_offset, info.max_queue_offset)
            for info in plugin.reput_queues()
        }

"""What every plugin must keep; it derives nothing from messages, and keeps no files."""

from __future__ import annotations

from typing import Any, ClassVar

from reput_testing import PluginContract


class TestContract(PluginContract):
    plugin_name = "retention"
    config: ClassVar = {"max_bytes": 1 << 30, "disk_warn_ratio": 1.0}

    def state(self, plugin: Any) -> object:
        return plugin.is_full

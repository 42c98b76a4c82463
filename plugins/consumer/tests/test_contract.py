"""What every plugin must keep, whatever is done to its files and to the log."""

from __future__ import annotations

from reput_consumer import ConsumerPlugin
from reput_testing import PluginContract


class TestContract(PluginContract):
    plugin_name = "consumer"

    def state(self, plugin: ConsumerPlugin) -> object:
        return plugin.groups()

"""The sums keep what every plugin promises: in any batches, after damage, crashes and kills."""

from __future__ import annotations

from typing import Any

import pytest

from reput_testing import CrashContract, KillContract, PluginContract


class Sums:
    plugin_name = "integrity"

    def state(self, plugin: Any) -> object:
        """Offset, size and CRC of every record."""
        return plugin.contract_state()

    def trimmed_state(self, plugin: Any) -> object:
        return self.state(plugin)

    def files(self, root: Any) -> dict[str, bytes]:
        """Without the origins: when a sum was made does not follow from the log."""
        found = super().files(root)
        return {name: data for name, data in found.items() if name != "integrity/origins"}


class TestContract(Sums, PluginContract):
    pass


@pytest.mark.proof
class TestCrashes(Sums, CrashContract):
    pass


@pytest.mark.proof
class TestKilled(Sums, KillContract):
    pass

"""`PluginContract`: the tests that every plugin passes, first-party or a stranger's.

    class TestAudit(PluginContract):
        plugin_name = "audit"

        def state(self, plugin):
            return plugin.counts()

That is all: pytest finds the inherited tests. They take the plugin through its hooks in directories
and logs of their own, most of them on the caller's thread (`reput_testing.Driver`), and compare
what it knows and what it wrote with a run in which nothing happened. Attributes and methods that a
subclass may set or override stand in `ContractRules`.
"""

from __future__ import annotations

from reput_testing.contract.damagerules import DamageRules
from reput_testing.contract.dispatchrules import DispatchRules
from reput_testing.contract.recoveryrules import RecoveryRules
from reput_testing.contract.retryrules import RetryRules
from reput_testing.contract.shaperules import ShapeRules

__all__ = ["PluginContract"]


class PluginContract(ShapeRules, DispatchRules, RecoveryRules, DamageRules, RetryRules):
    """Tests of one plugin; subclass it and say how the plugin's state is read."""

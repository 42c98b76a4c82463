"""`PluginContract`: the tests that every plugin must pass, ours included.

    class TestAudit(PluginContract):
        plugin_name = "audit"

        def state(self, plugin):
            return plugin.counts()

Nothing else is needed: pytest finds the inherited tests. They call the plugin's hooks in
directories and over logs of their own, mostly on the caller's thread (`reput_testing.Driver`), and
compare the plugin's state and files with those of an undisturbed run. `ContractRules` has the
attributes and methods that a subclass may set or override.
"""

from __future__ import annotations

from reput_testing.contract.damagerules import DamageRules
from reput_testing.contract.dispatchrules import DispatchRules
from reput_testing.contract.promises import shows
from reput_testing.contract.recoveryrules import RecoveryRules
from reput_testing.contract.retryrules import RetryRules
from reput_testing.contract.shaperules import ShapeRules


@shows("failing-disk", "damaged-file")
class PluginContract(ShapeRules, DispatchRules, RecoveryRules, DamageRules, RetryRules):
    """Tests of one plugin; subclass it and say how the plugin's state is read."""

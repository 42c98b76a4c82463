"""`KillContract`: what a plugin has derived is right after its process was killed, again and again.

    class TestAuditKilled(KillContract):
        plugin_name = "audit"

        def state(self, plugin):
            return plugin.totals()

After each kill the store is opened, the plugin catches up, and its state and its files are compared
with those of a plugin that was given the same log from the beginning, in another store.
"""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import reput
from reput.testing.disks import QuickDisk
from reput.testing.killing import KillLoop, Sections, kill_count
from reput.testing.killplan import PluginSource
from reput.testing.rules import ContractRules, Outcome

__all__ = ["KillContract"]


class KillContract(ContractRules):
    """A test of one plugin; subclass it and say how the plugin's state is read."""

    kills: ClassVar[int] = 12
    """Writers to kill in an ordinary run; see `reput.testing.killing.kill_count`."""
    rebuild_every: ClassVar[int] = 1
    """After how many deaths the plugin is compared with one that was built anew."""
    beside: ClassVar[Collection[str]] = ()
    """Installed plugins that are in the same stores."""
    beside_config: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Their sections of the configuration."""

    def test_after_every_kill_it_agrees_with_the_log(self, tmp_path: Path) -> None:
        """Nothing acknowledged is lost, and what was derived is what the log says."""
        found: dict[str, Any] = {}
        deaths = itertools.count(1)

        def check(store: reput.Store) -> None:
            found["state"] = copy.deepcopy(self.state(store.plugin_objects[self.name]))

        def check_closed(root: Path, config: Sections) -> None:
            if next(deaths) % self.rebuild_every:
                return
            ours = Outcome(found["state"], self.files(root), 0)
            anew = tmp_path / "built anew"
            self.assert_same(ours, self.built_anew(root, anew, config), "after a kill")

        sections = {**self.beside_config, self.name: self.config}
        loop = KillLoop(
            tmp_path,
            self.sources(),
            config=sections,
            check=check,
            check_closed=check_closed,
        )
        loop.run(kill_count(self.kills))

    def sources(self) -> list[PluginSource]:
        """The plugin and those beside it, for another process to find."""
        own = PluginSource(self.name)
        if self.plugin_type is not None:
            own = PluginSource.of(self.name, self.plugin_type, self.config)
        return [own, *(PluginSource(name) for name in sorted(self.beside) if name != self.name)]

    def built_anew(self, root: Path, fresh: Path, config: Sections) -> Outcome:
        """What the plugins make of the log below ``root`` and of nothing else."""
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(root / "commitlog", fresh / "commitlog")
        plugins = [source.plugin() for source in self.sources()]
        with reput.open(
            fresh, plugins=plugins, config=config, disk=QuickDisk(), threads=False
        ) as store:
            store.wait_dispatched()
            state = copy.deepcopy(self.state(store.plugin_objects[self.name]))
        return Outcome(state, self.files(fresh), 0)

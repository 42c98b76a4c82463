"""`CrashContract`: checks a plugin after power cuts, killed processes and failing disks.

    class TestCrashes(CrashContract):
        plugin_name = "audit"

        def state(self, plugin):
            return plugin.totals()

The plugin works in a whole store, on a disk that knows what a power cut would leave at each moment
(`reput_testing.SimulatedDisk`). From each such state the store opens and has all that was promised,
and the plugin, once it has caught up, has the same state and files as a new plugin over the same
log.

Attributes and methods are those of `PluginContract`, so that one class may have both as its bases.
A failure prints the command that repeats it.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import reput
from reput.files import OWN_DIRECTORY, Disk
from reput.log import LOSSES, StateFile
from reput.record import Message
from reput_testing.casebudget import is_soak
from reput_testing.contract.basecontract import ContractRules, Outcome
from reput_testing.contract.promises import shows
from reput_testing.crashes.expectedstate import ExpectedState
from reput_testing.crashes.faultsweep import QUICK_RETRIES, Faults, Step
from reput_testing.crashes.powercuts import PowerCuts
from reput_testing.disks import filedamage
from reput_testing.disks.crashstates import CrashPoint
from reput_testing.disks.failingdisk import QuickDisk


@shows("power-cut", "failing-disk")
class CrashContract(ContractRules):
    """Crash and fault tests of one plugin; subclass it and override `state`."""

    crash_message_count: ClassVar[int] = 10
    """How many messages of `log` the workloads put. Choose a configuration in which these messages
    fill more than one file."""
    max_states: ClassVar[int] = 30
    """States that each test looks at, evenly spread over all; with ``REPUT_SOAK=1`` all."""
    second_lives: ClassVar[Sequence[int]] = (6, 1)
    """How many states start a second life whose power is cut too, how many states of that life a
    third, and so on: ``again`` of `PowerCuts.live`."""
    fault_step: ClassVar[int] = 7
    """Every how many operations of the disk one is made to fail; with ``REPUT_SOAK=1`` each is."""

    # ------------------------------------------------------------------ tests

    def test_crash_messages_change_its_state(self, tmp_path: Path) -> None:
        """The workloads put messages that the plugin acts on."""
        witness, root = self.witness("async"), str(tmp_path / "store")
        witness.open(root)
        witness.close()
        before = self.look_at(witness, root)
        witness.open(root)
        for step in self.steps():
            step(witness)
        witness.close()

        self.assert_changed(before, self.look_at(witness, root), "the messages of crash_messages()")

    def test_what_a_power_cut_leaves_is_caught_up(
        self, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        """Cut the power between any two operations, and lose any part of what was not flushed."""
        for flush in ("async", "sync") if is_soak() else ("async",):
            cuts = PowerCuts(tmp_path / flush, tries=self.max_states)
            cuts.live(self.witness(flush), self.life, self.check)
            cuts.check_tried(1)
            record_property("crash states", cuts.tried_count)

    def test_what_crash_upon_crash_leaves_is_caught_up(
        self, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        """Kill the process or cut the power, and cut it again while the store recovers."""
        cuts = PowerCuts(tmp_path, tries=max(self.max_states // 8, 1))
        cuts.live(self.witness("async"), self.life, self.check, again=self.second_lives)
        cuts.check_tried(1)
        record_property("crash states", cuts.tried_count)

    def test_a_disk_that_fails_costs_nothing(
        self, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        """Fail any operation, once or for good: the error is raised, the next opening recovers."""
        faults = Faults(tmp_path, self.witness("async").options, every=self.fault_step)
        faults.errors = (errno.EIO, errno.ENOSPC)
        faults.try_all(self.steps(), self.compare_with_new)
        assert faults.count, "no operation of the disk was made to fail"
        record_property("faults", faults.count)

    # ------------------------------------------------------------------ workloads

    def witness(self, flush: str) -> ExpectedState:
        """Return a witness of a store that has the plugin."""
        log = {"file_size": self.log().file_size, "flush": flush, "grows": self.grows}
        config = {"commitlog": log, "dispatch": QUICK_RETRIES, self.name: dict(self.config)}
        return ExpectedState({"plugins": self.plugins, "config": config})

    def plugins(self) -> list[Any]:
        """Return the plugins to open the store with: a name, or a new object if not installed."""
        # By name if the plugin is installed, as users do.
        return [self.plugin() if self.plugin_type is not None else self.name]

    def crash_messages(self) -> list[Message]:
        """Return the messages that the workloads put, in order."""
        views = list(self.log().messages())[: self.crash_message_count]
        return [view.to_message() for view in views]

    def steps(self) -> Sequence[Step]:
        """Return the calls of a workload, without the opening and the last close."""
        messages = self.crash_messages()
        half = len(messages) // 2
        return [
            lambda witness: witness.put(*messages[:half]),
            lambda witness: witness.dispatched(),
            lambda witness: witness.flush(),
            lambda witness: witness.put(messages[half]),
            lambda witness: witness.dispatched(),
            lambda witness: witness.put_many(messages[half + 1 :]),
            lambda witness: witness.dispatched(),
            lambda witness: witness.flush(),
        ]

    def life(self, witness: ExpectedState, root: str) -> None:
        """Run the workload whose power is cut: the steps, and another opening."""
        witness.open(root)
        for step in self.steps():
            step(witness)
        witness.close()
        witness.open(root)
        witness.put(*self.crash_messages()[:2])
        witness.dispatched()
        witness.flush()
        witness.close()

    # ------------------------------------------------------------------ checks

    def check(self, witness: ExpectedState, point: CrashPoint, root: str) -> None:
        """Check the store, then compare the plugin with a new one over the same log."""
        witness.check(root, point.note)
        self.compare_with_new(witness, root)

    def compare_with_new(self, witness: ExpectedState, root: str) -> None:
        """Fail unless the plugin has the state and files of a plugin that is new to the log."""
        found = self.look_at(witness, root)
        expected = self.built_anew(witness, root)
        self.assert_same(found, expected, "after a crash or a fault, and catching up")

    def look_at(self, witness: ExpectedState, root: str) -> Outcome:
        """Open the store, and return what the plugin has derived from its log."""
        options = witness.arguments()
        with reput.open(root, threads=False, disk=QuickDisk(), **options) as store:
            store.wait_dispatched(timeout=60)
            store.flush()
            (shown,) = (each for each in store.plugins() if each.name == self.name)
            assert shown.last_error is None, f"the plugin does not run: {shown.last_error}"
            state = copy.deepcopy(self.state(store.plugin_objects[self.name]))
            progress = store.log.max_physical_offset
        return Outcome(state, self.files(root), progress)

    def built_anew(self, witness: ExpectedState, root: str) -> Outcome:
        """Return what a new plugin derives from the log at ``root`` and from its list of losses."""
        log = filedamage.snapshot(root, [os.path.join(root, "commitlog")])
        losses = StateFile.of(root, Disk()).value(LOSSES)
        key = hashlib.sha256(repr((sorted(log.items()), losses)).encode()).digest()
        known: dict[bytes, Outcome] = self.__dict__.setdefault("_built", {})
        if key not in known:
            anew = os.path.join(os.path.dirname(root), "anew")
            filedamage.place(log, anew)
            if losses:
                os.mkdir(os.path.join(anew, OWN_DIRECTORY))
                StateFile.of(anew, Disk()).note({LOSSES: losses})
            # A new store without the plugin, which is added later: the plugin then gets all of the
            # log.
            others = {**witness.arguments(), "plugins": []}
            others["config"] = _without(others["config"], self.name)
            reput.open(anew, threads=False, disk=QuickDisk(), **others).close()
            known[key] = self.look_at(witness, anew)
        return known[key]


def _without(config: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {name: options for name, options in config.items() if name != section}

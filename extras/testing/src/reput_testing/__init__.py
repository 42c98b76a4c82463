"""The testing kit for authors of plugins: the rules that every plugin keeps, and faults.

`PluginContract` has the tests that every plugin must pass; `CrashContract` cuts the power and makes
disks fail under a plugin; `KillContract` kills processes in which it runs. The rest are the parts
of these classes, for other tests: `SmallLog` and `sample_log`, `Driver`, `ManualClock`, disks that
fail, damage to files, power cuts (`PowerCuts`), kills between two operations (`KillPoints`), killed
writers (`KillLoop`), Hypothesis strategies in `reput_testing.strategies`, and nearly valid bytes in
`reput_testing.fuzzing`.

Plain classes and functions, no pytest plugin: without an import the kit costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reput_testing.crashes.killloop import KillLoop
    from reput_testing.crashes.killrules import KillContract

# Before the modules are imported, so that pytest rewrites their assertions, too.
pytest.register_assert_rewrite("reput_testing.contract", "reput_testing.crashes")

from reput_testing.contract.basecontract import ContractRules, Outcome  # noqa: E402
from reput_testing.contract.contract import PluginContract  # noqa: E402
from reput_testing.contract.driver import Driver  # noqa: E402
from reput_testing.crashes.crashrules import CrashContract  # noqa: E402
from reput_testing.crashes.expectedstate import ExpectedState  # noqa: E402
from reput_testing.crashes.faultsweep import Fault, Faults  # noqa: E402
from reput_testing.crashes.killpoints import KillPoint, KillPoints, copy_store  # noqa: E402
from reput_testing.crashes.powercuts import PowerCuts  # noqa: E402
from reput_testing.crashes.storeinternals import kill  # noqa: E402
from reput_testing.disks.crashstates import CrashPoint, CrashState  # noqa: E402
from reput_testing.disks.failingdisk import FaultyDisk, QuickDisk, ReadOnlyDisk  # noqa: E402
from reput_testing.disks.filedamage import (  # noqa: E402
    FileDamage,
    damages_of,
    emptied,
    garbled_at,
    grown_by,
    open_files_under,
    place,
    removed,
    snapshot,
    torn_at,
    traces,
    zeroed_from,
)
from reput_testing.disks.simulateddisk import FaultySimulatedDisk, SimulatedDisk  # noqa: E402
from reput_testing.logs import fuzzing, strategies  # noqa: E402
from reput_testing.logs.clock import ManualClock  # noqa: E402
from reput_testing.logs.smalllog import SmallLog, sample_log  # noqa: E402

__all__ = [
    "ContractRules",
    "CrashContract",
    "CrashPoint",
    "CrashState",
    "Driver",
    "ExpectedState",
    "Fault",
    "Faults",
    "FaultyDisk",
    "FaultySimulatedDisk",
    "FileDamage",
    "KillContract",
    "KillLoop",
    "KillPoint",
    "KillPoints",
    "ManualClock",
    "Outcome",
    "PluginContract",
    "PowerCuts",
    "QuickDisk",
    "ReadOnlyDisk",
    "SimulatedDisk",
    "SmallLog",
    "copy_store",
    "damages_of",
    "emptied",
    "fuzzing",
    "garbled_at",
    "grown_by",
    "kill",
    "open_files_under",
    "place",
    "removed",
    "sample_log",
    "snapshot",
    "strategies",
    "torn_at",
    "traces",
    "zeroed_from",
]


def __getattr__(name: str) -> Any:
    # Imported late: tests that kill no process need none of it.
    if name == "KillContract":
        from reput_testing.crashes.killrules import KillContract

        return KillContract
    if name == "KillLoop":
        from reput_testing.crashes.killloop import KillLoop

        return KillLoop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

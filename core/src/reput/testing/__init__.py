"""The testing kit for those who write plugins: extra ``reput[testing]`` (pytest and Hypothesis).

`PluginContract` has the tests that every plugin must pass; `CrashContract` cuts the power and lets
disks fail under it; `KillContract` kills processes in which it runs. The rest is what they are made
of, for tests of your own: `SmallLog` and `sample_log`, `Driver`, `ManualClock`, disks that fail,
damage to files, power cuts (`PowerCuts`), kills between two operations (`KillPoints`), killed
writers (`KillLoop`), Hypothesis strategies in `reput.testing.strategies`, and bytes that are nearly
right in `reput.testing.fuzzing`.

Plain classes and functions, no pytest plugin: whoever does not import it pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reput.testing.killing import KillLoop
    from reput.testing.killrules import KillContract

# Before the modules are imported, so that their assertions tell what was compared.
pytest.register_assert_rewrite(
    "reput.testing.crashrules",
    "reput.testing.damagerules",
    "reput.testing.dispatchrules",
    "reput.testing.faults",
    "reput.testing.killing",
    "reput.testing.killrules",
    "reput.testing.recoveryrules",
    "reput.testing.rules",
    "reput.testing.shaperules",
    "reput.testing.storerules",
    "reput.testing.witness",
)

from reput.testing import fuzzing, strategies  # noqa: E402
from reput.testing.clock import ManualClock  # noqa: E402
from reput.testing.contract import PluginContract  # noqa: E402
from reput.testing.crashrules import CrashContract  # noqa: E402
from reput.testing.crashstates import CrashPoint, CrashState  # noqa: E402
from reput.testing.damage import (  # noqa: E402
    Damage,
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
from reput.testing.disks import FaultyDisk, QuickDisk, ReadOnlyDisk  # noqa: E402
from reput.testing.driver import Driver  # noqa: E402
from reput.testing.faults import Fault, Faults  # noqa: E402
from reput.testing.killpoints import KillPoint, KillPoints, copy_store  # noqa: E402
from reput.testing.logs import SmallLog, sample_log  # noqa: E402
from reput.testing.powercuts import PowerCuts  # noqa: E402
from reput.testing.rules import ContractRules, Outcome  # noqa: E402
from reput.testing.simulateddisk import FaultySimulatedDisk, SimulatedDisk  # noqa: E402
from reput.testing.witness import Witness  # noqa: E402

__all__ = [
    "ContractRules",
    "CrashContract",
    "CrashPoint",
    "CrashState",
    "Damage",
    "Driver",
    "Fault",
    "Faults",
    "FaultyDisk",
    "FaultySimulatedDisk",
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
    "Witness",
    "copy_store",
    "damages_of",
    "emptied",
    "fuzzing",
    "garbled_at",
    "grown_by",
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
    # Late: who kills no processes need not import what that takes.
    if name == "KillContract":
        from reput.testing.killrules import KillContract

        return KillContract
    if name == "KillLoop":
        from reput.testing.killing import KillLoop

        return KillLoop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

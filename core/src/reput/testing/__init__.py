"""The testing kit for those who write plugins: extra ``reput[testing]`` (pytest and Hypothesis).

`PluginContract` has the tests that every plugin must pass. The rest is what they are made of, for
tests of your own: `SmallLog` and `sample_log`, `Driver`, `ManualClock`, disks that fail, damage to
files, and Hypothesis strategies in `reput.testing.strategies`.

Plain classes and functions, no pytest plugin: whoever does not import it pays nothing.
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that their assertions tell what was compared.
pytest.register_assert_rewrite(
    "reput.testing.damagerules",
    "reput.testing.dispatchrules",
    "reput.testing.recoveryrules",
    "reput.testing.rules",
    "reput.testing.shaperules",
    "reput.testing.storerules",
)

from reput.testing import strategies  # noqa: E402
from reput.testing.clock import ManualClock  # noqa: E402
from reput.testing.contract import PluginContract  # noqa: E402
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
from reput.testing.logs import SmallLog, sample_log  # noqa: E402
from reput.testing.rules import ContractRules, Outcome  # noqa: E402

__all__ = [
    "ContractRules",
    "Damage",
    "Driver",
    "FaultyDisk",
    "ManualClock",
    "Outcome",
    "PluginContract",
    "QuickDisk",
    "ReadOnlyDisk",
    "SmallLog",
    "damages_of",
    "emptied",
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

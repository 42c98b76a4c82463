"""Tools for stores that no program has open: rebuilds, and comparisons with what a rebuild gives.

    from reput_offline import rebuild

    rebuild("/path/to/store", ["consumequeue"])

`run_rebuild` does the same on any engine that runs tasks; `LocalEngine` runs them on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_offline.asking import offline_hooks as offline_hooks
    from reput_offline.contract.comparing import Compared as Compared
    from reput_offline.contract.comparing import Comparison as Comparison
    from reput_offline.contract.comparing import Difference as Difference
    from reput_offline.contract.comparing import TouchedMessage as TouchedMessage
    from reput_offline.contract.leads import Leads as Leads
    from reput_offline.contract.merging import MergingBuilder as MergingBuilder
    from reput_offline.contract.sharding import NotSplittableError as NotSplittableError
    from reput_offline.contract.sharding import ShardBuilder as ShardBuilder
    from reput_offline.contract.sharding import ShardScan as ShardScan
    from reput_offline.rebuilding.compare import compare as compare
    from reput_offline.rebuilding.driver import Rebuilt as Rebuilt
    from reput_offline.rebuilding.driver import run_rebuild as run_rebuild
    from reput_offline.rebuilding.local import rebuild as rebuild
    from reput_offline.rebuilding.tasks import TaskFailedError as TaskFailedError
    from reput_offline.running.engine import Engine as Engine
    from reput_offline.running.engine import LocalEngine as LocalEngine
    from reput_offline.running.engine import ProcessEndedError as ProcessEndedError
    from reput_offline.running.engine import Task as Task
    from reput_offline.running.engine import Work as Work
    from reput_offline.running.rounds import LogPlace as LogPlace
    from reput_offline.running.rounds import SplitTask as SplitTask
    from reput_offline.running.rounds import read_in_rounds as read_in_rounds

_HOMES = {
    "Compared": "contract.comparing",
    "Comparison": "contract.comparing",
    "Difference": "contract.comparing",
    "Engine": "running.engine",
    "Leads": "contract.leads",
    "LocalEngine": "running.engine",
    "LogPlace": "running.rounds",
    "MergingBuilder": "contract.merging",
    "NotSplittableError": "contract.sharding",
    "ProcessEndedError": "running.engine",
    "Rebuilt": "rebuilding.driver",
    "ShardBuilder": "contract.sharding",
    "ShardScan": "contract.sharding",
    "SplitTask": "running.rounds",
    "Task": "running.engine",
    "TaskFailedError": "rebuilding.tasks",
    "TouchedMessage": "contract.comparing",
    "Work": "running.engine",
    "compare": "rebuilding.compare",
    "offline_hooks": "asking",
    "read_in_rounds": "running.rounds",
    "rebuild": "rebuilding.local",
    "run_rebuild": "rebuilding.driver",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)

"""Tools for stores that no program has open: looking, holding, rebuilding, comparing.

    from reput_offline import look, rebuild

    print(look("/path/to/store").written_by)
    rebuild("/path/to/store", ["consumequeue"])

`look` takes no lock. `hold` takes it; every change is made in an order that a crash may interrupt
after any step. `run_rebuild` rebuilds on any engine that runs tasks; `LocalEngine` runs them on
this machine. What plugins are asked is in `reput_offline.hookspecs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_offline.asking import offline_hooks as offline_hooks
    from reput_offline.closed.committed import Committed as Committed
    from reput_offline.closed.committed import read_consumer_offsets as read_consumer_offsets
    from reput_offline.closed.committed import read_delay_offsets as read_delay_offsets
    from reput_offline.closed.holding import ClosedStore as ClosedStore
    from reput_offline.closed.holding import hold as hold
    from reput_offline.closed.looking import Traces as Traces
    from reput_offline.closed.looking import look as look
    from reput_offline.contract.comparing import Compared as Compared
    from reput_offline.contract.comparing import Comparison as Comparison
    from reput_offline.contract.comparing import Difference as Difference
    from reput_offline.contract.comparing import TouchedMessage as TouchedMessage
    from reput_offline.contract.leads import Leads as Leads
    from reput_offline.contract.merging import MergingBuilder as MergingBuilder
    from reput_offline.contract.sharding import NotSplittableError as NotSplittableError
    from reput_offline.contract.sharding import ShardBuilder as ShardBuilder
    from reput_offline.contract.sharding import ShardScan as ShardScan
    from reput_offline.damages import DamageCollector as DamageCollector
    from reput_offline.damages import find_damages as find_damages
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
    from reput_offline.splits import SPLIT_SIZE as SPLIT_SIZE
    from reput_offline.splits import Split as Split
    from reput_offline.splits import plan_splits as plan_splits
    from reput_offline.splits import read_split as read_split

_HOMES = {
    "ClosedStore": "closed.holding",
    "Committed": "closed.committed",
    "Compared": "contract.comparing",
    "Comparison": "contract.comparing",
    "DamageCollector": "damages",
    "Difference": "contract.comparing",
    "Engine": "running.engine",
    "Leads": "contract.leads",
    "LocalEngine": "running.engine",
    "LogPlace": "running.rounds",
    "MergingBuilder": "contract.merging",
    "NotSplittableError": "contract.sharding",
    "ProcessEndedError": "running.engine",
    "Rebuilt": "rebuilding.driver",
    "SPLIT_SIZE": "splits",
    "ShardBuilder": "contract.sharding",
    "ShardScan": "contract.sharding",
    "Split": "splits",
    "SplitTask": "running.rounds",
    "Task": "running.engine",
    "TaskFailedError": "rebuilding.tasks",
    "TouchedMessage": "contract.comparing",
    "Traces": "closed.looking",
    "Work": "running.engine",
    "compare": "rebuilding.compare",
    "find_damages": "damages",
    "hold": "closed.holding",
    "look": "closed.looking",
    "offline_hooks": "asking",
    "plan_splits": "splits",
    "read_consumer_offsets": "closed.committed",
    "read_delay_offsets": "closed.committed",
    "read_in_rounds": "running.rounds",
    "read_split": "splits",
    "rebuild": "rebuilding.local",
    "run_rebuild": "rebuilding.driver",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)

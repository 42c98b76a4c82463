"""Tools for stores that no program has open: looking, holding, rebuilding, comparing.

    from reput_tools.offline import inspect_store, rebuild

    print(inspect_store("/path/to/store").written_by)
    rebuild("/path/to/store", ["consumequeue"])

`inspect_store` takes no lock. `lock_store` takes it; every change is made in an order that a crash
may interrupt after any step. `run_rebuild` rebuilds on any engine that runs tasks; `LocalEngine`
runs them on this machine. What plugins are asked is in `reput_tools.offline.hookspecs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_tools.offline.closedstore.committedoffsets import Committed as Committed
    from reput_tools.offline.closedstore.committedoffsets import (
        read_consumer_offsets as read_consumer_offsets,
    )
    from reput_tools.offline.closedstore.committedoffsets import (
        read_delay_offsets as read_delay_offsets,
    )
    from reput_tools.offline.closedstore.inspection import Traces as Traces
    from reput_tools.offline.closedstore.inspection import inspect_store as inspect_store
    from reput_tools.offline.closedstore.lockedstore import ClosedStore as ClosedStore
    from reput_tools.offline.closedstore.lockedstore import lock_store as lock_store
    from reput_tools.offline.closedstore.misplaced import HidingDisk as HidingDisk
    from reput_tools.offline.closedstore.misplaced import misplaced as misplaced
    from reput_tools.offline.committedlog import committed_end as committed_end
    from reput_tools.offline.contract.alignment import Unaligned as Unaligned
    from reput_tools.offline.contract.alignment import align as align
    from reput_tools.offline.contract.comparison import Compared as Compared
    from reput_tools.offline.contract.comparison import Comparison as Comparison
    from reput_tools.offline.contract.comparison import Difference as Difference
    from reput_tools.offline.contract.comparison import TouchedMessage as TouchedMessage
    from reput_tools.offline.contract.hints import RecordHints as RecordHints
    from reput_tools.offline.contract.mergingbuilder import MergingBuilder as MergingBuilder
    from reput_tools.offline.contract.shards import NotSplittableError as NotSplittableError
    from reput_tools.offline.contract.shards import ShardBuilder as ShardBuilder
    from reput_tools.offline.contract.shards import ShardScan as ShardScan
    from reput_tools.offline.damagelist import DamageCollector as DamageCollector
    from reput_tools.offline.damagelist import find_damages as find_damages
    from reput_tools.offline.logsplits import SPLIT_SIZE as SPLIT_SIZE
    from reput_tools.offline.logsplits import Split as Split
    from reput_tools.offline.logsplits import plan_splits as plan_splits
    from reput_tools.offline.logsplits import read_split as read_split
    from reput_tools.offline.movedrecords import moved_records as moved_records
    from reput_tools.offline.offlinehooks import offline_hooks as offline_hooks
    from reput_tools.offline.rebuilder.filecompare import compare as compare
    from reput_tools.offline.rebuilder.localrebuild import rebuild as rebuild
    from reput_tools.offline.rebuilder.rebuilddriver import Rebuilt as Rebuilt
    from reput_tools.offline.rebuilder.rebuilddriver import run_rebuild as run_rebuild
    from reput_tools.offline.rebuilder.rebuildtasks import TaskFailedError as TaskFailedError
    from reput_tools.offline.reservednames import BENCHMARK_TOPIC as BENCHMARK_TOPIC
    from reput_tools.offline.reservednames import FORBIDDEN_TOPICS as FORBIDDEN_TOPICS
    from reput_tools.offline.reservednames import HALF_TOPIC as HALF_TOPIC
    from reput_tools.offline.reservednames import MOVED_TOPIC as MOVED_TOPIC
    from reput_tools.offline.reservednames import OP_TOPIC as OP_TOPIC
    from reput_tools.offline.reservednames import SCHEDULE_TOPIC as SCHEDULE_TOPIC
    from reput_tools.offline.reservednames import SYSTEM_PREFIXES as SYSTEM_PREFIXES
    from reput_tools.offline.reservednames import SYSTEM_TOPICS as SYSTEM_TOPICS
    from reput_tools.offline.reservednames import TEMPLATE_TOPIC as TEMPLATE_TOPIC
    from reput_tools.offline.reservednames import TEST_TOPIC as TEST_TOPIC
    from reput_tools.offline.reservednames import TIMER_TOPIC as TIMER_TOPIC
    from reput_tools.offline.reservednames import is_system_group as is_system_group
    from reput_tools.offline.reservednames import is_system_topic as is_system_topic
    from reput_tools.offline.taskengine.engine import Engine as Engine
    from reput_tools.offline.taskengine.engine import LocalEngine as LocalEngine
    from reput_tools.offline.taskengine.engine import ProcessEndedError as ProcessEndedError
    from reput_tools.offline.taskengine.engine import Task as Task
    from reput_tools.offline.taskengine.engine import Work as Work
    from reput_tools.offline.taskengine.readrounds import LogPlace as LogPlace
    from reput_tools.offline.taskengine.readrounds import SplitTask as SplitTask
    from reput_tools.offline.taskengine.readrounds import read_in_rounds as read_in_rounds
else:
    __getattr__, __dir__ = lazy_exports(__name__)

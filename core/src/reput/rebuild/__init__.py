"""The second engine: builds the files of plugins anew from splits of the log, on many cores.

`splits` cuts the log, `shards` is what a plugin has to offer, `worker` and `tasks` are what one
process does, `engine` runs tasks on this machine, `driver` leads from the lock to `publish`, which
puts the result in the place of the old. What a plugin needs is here; `reput.rebuild.local.rebuild`
is what a user calls.
"""

from __future__ import annotations

from reput.rebuild.compare import Compared, Comparison, Difference
from reput.rebuild.shards import NotSplittableError, ShardBuilder, ShardScan
from reput.rebuild.splits import SPLIT_SIZE, Split, plan_splits, read_split

__all__ = [
    "SPLIT_SIZE",
    "Compared",
    "Comparison",
    "Difference",
    "NotSplittableError",
    "ShardBuilder",
    "ShardScan",
    "Split",
    "plan_splits",
    "read_split",
]

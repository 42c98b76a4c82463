"""How a plugin's files are built by several processes at once: the contract.

The reput loop hands a plugin the log in order. A `ShardBuilder` builds the same files from splits
of the log, read side by side in any order, by processes of this machine or by Spark:

1. each split is *scanned* by somebody: `ShardBuilder.begin` makes a `ShardScan`, which gets the
   split's batches and returns what the others must know of them;
2. whoever drives it *plans*, from what all scans returned, what is left to be done;
3. each task of the plan is *built* by somebody;
4. the driver *finishes*: checks that all fits together, writes what belongs between the parts.

Everything is written under a staging directory of the plugin's own, at the paths below a store's
root, and published by the driver; all processes share its file system. A task may run twice, or be
given up and begun anew, while the attempt before it still runs: what it writes must come out the
same. The result must be, byte for byte, what the reput loop would have built; where that cannot be
(queue offsets that repeat, say), raise `NotSplittableError` in a scan or in the plan, and one
process builds it in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.log.reading.splits import Split
    from reput.record.batch import DispatchBatch

__all__ = ["NotSplittableError", "ShardBuilder", "ShardScan"]


@attrs.define(eq=False, slots=False)
class NotSplittableError(ReputError):
    """A log of which a plugin's files cannot be built in parts."""

    plugin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.plugin}: {self.reason}; it is built in one piece instead"


class ShardScan(Protocol):
    """One split being scanned."""

    def add(self, batch: DispatchBatch) -> None:
        """Take the next batch of the split; valid until the call returns.

        Raises:
            NotSplittableError: see there.
        """
        ...

    def finish(self) -> Any:
        """Flush what was written; what the driver must know of the split, picklable and small."""
        ...


class ShardBuilder(Protocol):
    """How one plugin's files are built in parts. Made anew in each process; keeps no state."""

    @property
    def directories(self) -> Sequence[str]:
        """Names below the store's root that it builds, whole."""
        ...

    def begin(self, split: Split, staging: str) -> ShardScan:
        """Begin to scan a split, in the process that reads it."""
        ...

    def plan(self, scanned: Sequence[Any]) -> Sequence[Any]:
        """What is left to do, from what the scans returned, in the order of the log; picklable.

        Raises:
            NotSplittableError: see there.
        """
        ...

    def build(self, task: Any, staging: str) -> Any:
        """Do one task of the plan, in any process; what `finish` must know of it, picklable."""
        ...

    def finish(self, scanned: Sequence[Any], built: Sequence[Any], staging: str) -> None:
        """Complete the files, on the driver; everything is on disk when this returns."""
        ...

"""The contract for building a plugin's files in several processes at once.

The reput loop gives a plugin the log in order. A `ShardBuilder` builds the same files from splits
of the log, read in parallel and in any order, by processes of this machine or by Spark:

1. a process *scans* each split: `ShardBuilder.begin` makes a `ShardScan`, which gets the split's
   batches and returns what the other processes must know of them;
2. the driver *plans* the remaining tasks from what all scans returned;
3. a process *builds* each task of the plan;
4. the driver *finishes*: it checks that the parts fit together, and writes what lies between them.

Everything is written under a staging directory of the plugin's own, at the paths below a store's
root, and published by the driver; all processes share a file system. A task may run twice, the
second attempt while the first still runs: both must write the same bytes. The result must be, byte
for byte, what the reput loop would have built. If that is impossible (queue offsets repeat, say),
raise `NotSplittableError` in a scan or in the plan; then one process builds the files in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.record import DispatchBatch
    from reput_tools.offline.logsplits import Split


@attrs.define(eq=False, slots=False)
class NotSplittableError(ReputError):
    """A plugin's files cannot be built from this log in parts."""

    plugin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.plugin}: {self.reason}; it is built in one piece instead"


class ShardScan(Protocol):
    """The scan of one split."""

    def add(self, batch: DispatchBatch) -> None:
        """Scan the split's next batch, which is valid until the call returns.

        Raises:
            NotSplittableError: the files cannot be built in parts.
        """
        ...

    def finish(self) -> Any:
        """Flush what was written. Return what the driver must know: small and picklable."""
        ...


class ShardBuilder(Protocol):
    """Builds one plugin's files in parts. Each process makes its own; it keeps no state."""

    @property
    def directories(self) -> Sequence[str]:
        """Names, below the store's root, of the directories that it builds completely."""
        ...

    def begin(self, split: Split, staging: str) -> ShardScan:
        """Begin to scan ``split``, in the process that reads it."""
        ...

    def plan(self, scanned: Sequence[Any]) -> Sequence[Any]:
        """Return the tasks that remain after the scans; picklable.

        Args:
            scanned: what the scans returned, in the order of the log.

        Raises:
            NotSplittableError: the files cannot be built in parts.
        """
        ...

    def build(self, task: Any, staging: str) -> Any:
        """Do one task of the plan, in any process. Return what `finish` must know: picklable."""
        ...

    def finish(self, scanned: Sequence[Any], built: Sequence[Any], staging: str) -> None:
        """Complete the files, on the driver. Everything is on disk when this returns."""
        ...

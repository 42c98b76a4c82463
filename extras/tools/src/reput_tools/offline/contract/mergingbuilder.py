"""`MergingBuilder`: a plugin's files from states that add up, one for each split of the log.

Counts, sums and the like of a split do not depend on what stands before it. Each split gets a state
of its own, in the process that reads it; the driver merges the states in the order of the log, and
writes the files. What grows with the number of messages writes files in each process instead: see
`reput_tools.offline.contract.shards`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.plugin import StoreContext
    from reput.record import DispatchBatch
    from reput_tools.offline.logsplits import Split

State = TypeVar("State")


class MergingBuilder(ABC, Generic[State]):
    """Base class of builders of files that follow from one state; see `ShardBuilder`.

        class CountsBuilder(MergingBuilder[Counts]):
            directories = ("counts",)

            def new_state(self): return Counts()
            def add(self, state, batch): state.add(batch)
            def merge(self, state, later): state.merge(later)
            def write(self, state, staging): ...

    A state is pickled and sent to the driver, which holds one for each split.

    Args:
        context: what `reput_tools_shards` was given.
    """

    directories: Sequence[str]
    """Names, below the store's root, of the directories that `write` fills completely."""

    def __init__(self, context: StoreContext) -> None:
        self.context = context

    @abstractmethod
    def new_state(self) -> State:
        """Return the state of no message at all."""

    @abstractmethod
    def add(self, state: State, batch: DispatchBatch) -> None:
        """Add the next batch of a split to its state; the batch is valid until the call returns.

        Raises:
            NotSplittableError: the files cannot be built in parts.
        """

    @abstractmethod
    def merge(self, state: State, later: State) -> None:
        """Add the state of the next split to that of all splits before it.

        Raises:
            NotSplittableError: the files cannot be built in parts.
        """

    @abstractmethod
    def write(self, state: State, staging: str) -> None:
        """Write the files that follow from the whole log's state, each flushed.

        Args:
            state: of the whole log.
            staging: the directory that stands for the store's root: a file goes to
                ``<staging>/<one of directories>/…``, and the directory is to be made.
        """

    # ------------------------------------------------------------------ as a ShardBuilder

    def begin(self, split: Split, staging: str) -> _MergingScan[State]:
        """See `ShardBuilder.begin`."""
        return _MergingScan(self, self.new_state())

    def plan(self, scanned: Sequence[State]) -> Sequence[Any]:
        """Merge the states into the first; return no task, as only the files remain."""
        for each in scanned[1:]:
            self.merge(scanned[0], each)
        return ()

    def build(self, task: Any, staging: str) -> Any:
        """Do nothing; `plan` has no tasks."""

    def finish(self, scanned: Sequence[State], built: Sequence[Any], staging: str) -> None:
        """Write the files, and bring their directories to disk."""
        self.write(scanned[0] if scanned else self.new_state(), staging)
        disk = self.context.disk
        for directory in self.directories:
            disk.flush_directory(f"{staging}/{directory}")
        disk.flush_directory(staging)


@attrs.define(eq=False)
class _MergingScan(Generic[State]):
    """The state of one split."""

    builder: MergingBuilder[State]
    state: State

    def add(self, batch: DispatchBatch) -> None:
        """See `ShardScan.add`."""
        self.builder.add(self.state, batch)

    def finish(self) -> State:
        """Return the state."""
        return self.state

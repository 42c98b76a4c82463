"""The counts of a whole log, from splits that several processes count side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_audit._counts import Counts, encode_counts
from reput_audit.layout import DIRECTORY, FILE_NAME
from reput_tools.offline import MergingBuilder

if TYPE_CHECKING:
    import reput


class CountsBuilder(MergingBuilder[Counts]):
    """Builds the file of the counts from the counts of each split."""

    directories = (DIRECTORY,)

    def __init__(self, context: reput.StoreContext, period_ms: int) -> None:
        super().__init__(context)
        self.period_ms = period_ms

    def new_state(self) -> Counts:
        """Return counts of nothing."""
        return Counts(self.period_ms)

    def add(self, state: Counts, batch: reput.DispatchBatch) -> None:
        """Count the messages of a batch."""
        state.add(batch, self.context.log.file_size)

    def merge(self, state: Counts, later: Counts) -> None:
        """Add the counts of the next split."""
        state.merge(later)

    def write(self, state: Counts, staging: str) -> None:
        """Write the file."""
        self.context.disk.make_directory(f"{staging}/{DIRECTORY}")
        self.context.disk.replace(f"{staging}/{DIRECTORY}/{FILE_NAME}", encode_counts(state))

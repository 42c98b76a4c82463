"""What a log has lost before its first file, by the note that reput keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reput.log import GONE, LogHead, Loss, StateFile

if TYPE_CHECKING:
    from reput_tools.offline import Traces


def lost_head(traces: Traces, min_physical_offset: int, recorded: Sequence[Loss]) -> Loss | None:
    """Return what the log has lost before its first file; None if nothing, or if it is not known.

    Args:
        traces: of the store.
        min_physical_offset: where the log begins, read before the note is.
        recorded: losses that the ledger has, of which none is returned again.
    """
    if not traces.reput_wrote_last:
        return None
    loss = LogHead(StateFile.of(traces.root, traces.disk)).loss(min_physical_offset)
    if loss is None or any(
        each.reason == GONE
        and each.start_offset <= loss.start_offset
        and loss.end_offset <= each.end_offset
        for each in recorded
    ):
        return None
    return loss

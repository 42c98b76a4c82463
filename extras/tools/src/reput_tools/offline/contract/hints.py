"""What a plugin's files say of the log: which messages stand where, by their own account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import numpy.typing as npt
    from numpy import int64


@attrs.frozen(eq=False)
class RecordHints:
    """Places in the log that a part of a plugin's files leads to, as columns of one length.

    Nothing of it is certain: the files may be as damaged as the log.
    """

    physical_offset: npt.NDArray[int64]
    """``(n,)``: where a record begins, bytes."""
    size: npt.NDArray[int64]
    """``(n,)``: bytes of the record; 0 if not known."""
    topic: str | None = None
    """The topic of all of them; None if not known."""
    queue_id: int | None = None
    """Their queue; None if not known."""
    queue_offset: npt.NDArray[int64] | None = None
    """``(n,)``: the place of each in its queue; None if not known."""
    key_hash: npt.NDArray[int64] | None = None
    """``(n,)``: hash of one key of each message, as `reput.record.java_string_hash` of
    ``topic#key``, without its sign; None if not known."""
    store_timestamp: npt.NDArray[int64] | None = None
    """``(n,)``: when each message was stored, ms, to the second; None if not known."""

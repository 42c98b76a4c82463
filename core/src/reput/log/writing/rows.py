"""The rows of a put of many messages: prepares them, gives them queue offsets, writes in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.engine import kernel
from reput.record.encoding.many import prepare_columns, prepare_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from reput.log.writing.appender import Appender
    from reput.record.encoding.many import Columns, PreparedMany
    from reput.record.encoding.one import Encoder
    from reput.record.messages.message import Message

__all__ = ["append_rows", "queue_offsets_of_rows", "rows_of_columns", "rows_of_messages"]


@kernel
def rows_of_messages(messages: Sequence[Message], encoder: Encoder) -> PreparedMany | None:
    """See `reput.record.encoding.many.prepare_messages`."""
    return prepare_messages(messages, encoder)


@kernel
def rows_of_columns(columns: Columns, encoder: Encoder) -> PreparedMany | None:
    """See `reput.record.encoding.many.prepare_columns`."""
    return prepare_columns(columns, encoder)


@kernel
def queue_offsets_of_rows(appender: Appender, prepared: PreparedMany) -> npt.NDArray[np.int64]:
    """Return ``(n,)`` queue offsets as they come next; 0 for rows that take none."""
    following = {key: appender.next_queue_offset(key) for key in prepared.group_keys}
    return prepared.assign_queue_offsets(following)


@kernel
def append_rows(
    appender: Appender,
    prepared: PreparedMany,
    first: int,
    queue_offsets: npt.NDArray[np.int64],
    physical_offsets: npt.NDArray[np.int64],
    store_timestamp: int,
) -> int:
    """Append rows from ``first`` on: as many as the active file has room for, or a chunk of them.

    Args:
        appender: has room for row ``first``.
        prepared: ``n`` messages.
        first: number of a row.
        queue_offsets: ``(n,)``, of all rows.
        physical_offsets: ``(n,)``; those of the appended rows are set here.
        store_timestamp: ms.

    Returns:
        The number of the first row that is not appended yet.
    """
    start = appender.end_offset
    size = prepared.size[first : first + prepared.chunk_count]
    ends = start + size.cumsum()
    count = int(ends.searchsorted(appender.file_limit, "right"))
    rows = slice(first, first + count)
    physical_offsets[rows] = (ends - size)[:count]
    data = prepared.encode(rows, queue_offsets, physical_offsets, store_timestamp)
    following = prepared.following_offsets(rows, queue_offsets)
    last = int(physical_offsets[rows.stop - 1])
    appender.publish(start, data[:4], memoryview(data)[4:], last, following)
    return rows.stop

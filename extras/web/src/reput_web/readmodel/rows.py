"""Rows of tables of messages: small values, which keep no record in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput.record.layout import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

if TYPE_CHECKING:
    from reput import MessageView
    from reput.plugin import MissingMessage

_PREVIEW_SIZE: Final = 240
TRANSACTIONS: Final = {
    0: "none",
    TRANSACTION_PREPARED: "prepared",
    TRANSACTION_COMMIT: "commit",
    TRANSACTION_ROLLBACK: "rollback",
}
"""Names of the transaction bits of a system flag."""


@attrs.frozen(kw_only=True)
class MessageRow:
    """One message of a table."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    """In the queue that was read; a light queue has offsets of its own."""
    store_timestamp: int
    tags: str | None
    keys: tuple[str, ...]
    unique_key: str | None
    reconsume_times: int
    transaction: str
    compression: str | None
    body_size: int
    preview: str | None
    """The beginning of the body as text; None where it is not text."""
    is_compacted: bool = False
    """Whether it comes from the files of a compacted topic: the physical offset is then a position
    there."""


@attrs.frozen(kw_only=True)
class LostRow:
    """Stands where a message, or a part of the log, cannot be read."""

    physical_offset: int
    size: int
    """Bytes; 0 if not known."""
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    reason: str


Row = MessageRow | LostRow


@attrs.frozen(kw_only=True)
class MessagePage:
    """Some rows, and where the next ones begin."""

    rows: tuple[Row, ...]
    next_at: int | None
    """The cursor of the next page; None if nothing follows."""
    is_unfinished: bool = False
    """Whether reading ended because the request may read no more, and not because the page is
    full."""
    searched_size: int = 0
    """Bytes of the log that this page has read, if it reads the log."""
    left_size: int = 0
    """Bytes of the log that are not read yet."""
    notes: tuple[str, ...] = ()


def row_of(
    message: MessageView, queue_offset: int | None = None, *, is_compacted: bool = False
) -> MessageRow:
    """Return the row of a message.

    Args:
        message: the message.
        queue_offset: its place in the queue that was read; by default the record's.
        is_compacted: as in the row.
    """
    body = message.body
    return MessageRow(
        physical_offset=message.physical_offset,
        size=message.size,
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset if queue_offset is None else queue_offset,
        store_timestamp=message.store_timestamp,
        tags=message.tags,
        keys=message.keys,
        unique_key=message.unique_key,
        reconsume_times=message.reconsume_times,
        transaction=TRANSACTIONS[message.transaction],
        compression=message.compression,
        body_size=len(body),
        preview=None if message.compression else _preview(body),
        is_compacted=is_compacted,
    )


def lost_row(topic: str, queue_id: int, hole: MissingMessage) -> LostRow:
    """Return the row of a message that a queue has and the log has lost."""
    return LostRow(
        physical_offset=hole.physical_offset,
        size=hole.size,
        topic=topic,
        queue_id=queue_id,
        queue_offset=hole.queue_offset,
        reason=hole.reason,
    )


def _preview(body: bytes) -> str | None:
    part = body[:_PREVIEW_SIZE]
    for cut in range(4):  # a character may be cut
        try:
            text = part[: len(part) - cut].decode()
        except UnicodeDecodeError:
            if len(body) <= _PREVIEW_SIZE:
                return None
            continue
        return text if "\0" not in text else None
    return None

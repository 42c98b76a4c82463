"""A half message in a check-back of its producer: with its real topic and queue.

Source: RocketMQ ``AbstractTransactionalMessageCheckListener.sendCheckMessage``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput.record.layout import MAGIC_V1

if TYPE_CHECKING:
    from reput.record import MessageView

_MAGIC: Final = slice(4, 8)
_CRC_TO_QUEUE: Final = slice(8, 12)
_AFTER_QUEUE: Final = 16


def with_destination(message: MessageView, topic: str, queue_id: int) -> bytes:
    """Return a message's record as if it stood in another queue.

    Raises:
        CorruptFileError: a length inside of the record leads out of it.
    """
    record = message.record
    _, topic_start, topic_end, _ = message.places()
    name = topic.encode()
    width = 1 if int.from_bytes(record[_MAGIC], "big") == MAGIC_V1 & 0xFFFFFFFF else 2
    size = len(record) - (topic_end - topic_start) + len(name)
    return b"".join(
        (
            size.to_bytes(4, "big"),
            record[_MAGIC],
            record[_CRC_TO_QUEUE],
            queue_id.to_bytes(4, "big"),
            record[_AFTER_QUEUE : topic_start - width],
            len(name).to_bytes(width, "big"),
            name,
            record[topic_end:],
        )
    )

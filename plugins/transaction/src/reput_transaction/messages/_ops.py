"""Op markers: the messages that say "the half messages at these queue offsets are finished".

Source: RocketMQ ``TransactionalOpBatchService`` (5.x, ``5,6,7,``) and
``TransactionalMessageBridge#putOpMessage`` (4.8, ``5``). One reader for both, as the 5.x one splits
at commas and drops what is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reput.record import Message
from reput_transaction.layout import OP_OFFSET_DIGITS, OP_PROPERTIES, OP_TOPIC

__all__ = ["op_messages", "parse_op_body"]


def parse_op_body(body: bytes) -> list[int]:
    """Queue offsets that an op message names; what is no number is passed over."""
    # A body is bounded by its record; a part with more digits than an offset has is no offset.
    return [
        int(part) for part in body.split(b",") if part.isdigit() and len(part) <= OP_OFFSET_DIGITS
    ]


def op_messages(
    queue_offsets: Sequence[int], *, batched: bool, body_size: int = 4096
) -> list[Message]:
    """Op messages that name all ``queue_offsets``.

    Args:
        queue_offsets: places in the half queue.
        batched: many to a message, each followed by a comma, as 5.x writes them; else one message
            for each, which 4.8 reads, too.
        body_size: a message is filled until it has as many bytes.
    """
    if batched:
        bodies: Iterator[bytes] | list[bytes] = _filled(queue_offsets, body_size)
    else:
        bodies = [b"%d" % offset for offset in queue_offsets]
    return [Message(OP_TOPIC, body, properties=OP_PROPERTIES) for body in bodies]


def _filled(queue_offsets: Sequence[int], body_size: int) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for offset in queue_offsets:
        part = b"%d," % offset
        parts.append(part)
        size += len(part)
        if size >= body_size:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)

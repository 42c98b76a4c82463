"""Op markers: the messages that say "the half messages at these queue offsets are finished".

Source: RocketMQ ``TransactionalOpBatchService`` (5.x, ``5,6,7,``) and
``TransactionalMessageBridge#putOpMessage`` (4.8, ``5``). One reader serves both, as RocketMQ 5
splits at commas and drops empty parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reput.record import Message
from reput_transaction.layout import OP_OFFSET_DIGITS, OP_PROPERTIES, OP_TOPIC


def parse_op_body(body: bytes) -> list[int]:
    """Return the queue offsets that an op message names; other parts are skipped."""
    # The record bounds the body; a part with more digits than any offset is not an offset.
    return [
        int(part) for part in body.split(b",") if part.isdigit() and len(part) <= OP_OFFSET_DIGITS
    ]


def op_messages(
    queue_offsets: Sequence[int], *, batched: bool, body_size: int = 4096
) -> list[Message]:
    """Return op messages that name all ``queue_offsets``.

    Args:
        queue_offsets: places in the half queue.
        batched: many offsets in a message, each followed by a comma, as RocketMQ 5 writes them;
            else one message for each, which RocketMQ 4.8 can read too.
        body_size: bytes at which a message is full.
    """
    if batched:
        bodies: Iterator[bytes] | list[bytes] = _filled(queue_offsets, body_size)
    else:
        bodies = [b"%d" % offset for offset in queue_offsets]
    return [Message(OP_TOPIC, body, 0, properties=OP_PROPERTIES) for body in bodies]


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

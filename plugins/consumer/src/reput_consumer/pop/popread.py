"""Reads what a group is to be handed of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput import ReadStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.plugin import MessageFilter
    from reput.record import MessageView
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.backend.pendingfetches import QueueKey
    from reput_consumer.pop.leases import Leases

OUT_MAX: Final = 2_000
"""Offsets from the first message of a queue that is not acknowledged to the last one handed out: so
that one message that nobody acknowledges does not hold an endless tail, which would come again
after a restart."""
_READ_BYTES: Final = 4 << 20


def room_of(leases: Leases) -> int:
    """Return how many more messages may be handed out before one is acknowledged."""
    return max(leases.floor + OUT_MAX - leases.next, 0)


def message_at(port: EmbeddedBackend, key: QueueKey, queue_offset: int) -> MessageView | None:
    """Return one message; None if the log has lost it.

    Raises:
        ReputError: the store cannot be read.
    """
    result = port.read(*key, queue_offset, 1)
    is_there = result.queue_offsets[:1] == (queue_offset,)
    return result.messages[0] if is_there else None


def new_messages(
    port: EmbeddedBackend,
    key: QueueKey,
    leases: Leases,
    wanted: Callable[[], int],
    chosen: MessageFilter | None,
) -> Iterator[tuple[int, MessageView]]:
    """Yield messages of a queue that were never handed out, each with its queue offset.

    The caller hands each of them out, or skips it, before it takes the next one. What the filter
    does not select, and what the log has lost, counts as acknowledged. ``wanted`` says how many
    messages the caller takes yet.

    Raises:
        ReputError: the store cannot be read.
    """
    while (count := wanted()) > 0 and (room := room_of(leases)) > 0:
        at = leases.next
        result = port.read(*key, at, min(count, room), _READ_BYTES, chosen)
        for queue_offset, view in zip(result.queue_offsets, result.messages, strict=True):
            yield queue_offset, view
            leases.pass_over(queue_offset + 1)
        if result.status is ReadStatus.OFFSET_OVERFLOW_BADLY:
            if not leases.open_count:  # a queue that is shorter than it was
                leases.next = result.max_queue_offset
            return
        following = result.next_queue_offset
        if following <= at or result.max_queue_offset <= at:
            return
        leases.pass_over(following)

"""Report messages that the log has lost but a queue knows: units that lead above the log's end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.log import CUT, GONE, Loss
from reput_consumequeue.queue.recovery import first_beyond

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_consumequeue.queue.consumequeue import ConsumeQueue


def report_lost_messages(
    queue: ConsumeQueue, context: StoreContext, max_physical_offset: int
) -> None:
    """Note in the store's ledger what a queue has above the log's end, before the queue is cut.

    Args:
        queue: its extent is known.
        context: the store.
        max_physical_offset: the log's end.
    """
    if queue.max_physical_offset <= max_physical_offset:
        return
    if not context.writable:
        # If another process writes, the log may have grown before the queue was looked at.
        max_physical_offset = max(max_physical_offset, context.log.max_physical_offset)
    first = first_beyond(queue, max_physical_offset)
    place = queue.files.read_place(first) if first < queue.max_offset else None
    if place is None or not 0 <= place[0] < queue.max_physical_offset:
        return
    first, end = queue.offset_of(first), queue.offset_of(queue.max_offset)
    count = end - first
    context.note_loss(
        Loss(
            place[0],
            queue.max_physical_offset,
            GONE,
            f"{count} of the queue's messages; the log ends at {max_physical_offset}",
            queue.topic,
            queue.queue_id,
            first,
            CUT,
            queue_end_offset=end,
        )
    )

"""Where a reader without a snapshot begins: a store that RocketMQ wrote, most often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.errors import NoReaderError, PluginError
from reput.status import ReadStatus
from reput_transaction.layout import HALF_TOPIC

if TYPE_CHECKING:
    from reput.plugin import StoreContext

__all__ = ["first_needed"]

_TOO_SMALL = (ReadStatus.OFFSET_TOO_SMALL,)


def first_needed(context: StoreContext, half_offset: int) -> int:
    """Physical offset in front of which no half message is open.

    What ends a half message stands behind it, so that nothing in front of the first one that is not
    finished needs to be read. The whole log where the queues do not tell.

    Args:
        context: of a read-only store.
        half_offset: queue offset below which all half messages are known to be finished.
    """
    log = context.log
    if not context.clean:
        return log.min_physical_offset  # the queues may be behind the log
    end = log.max_physical_offset
    try:
        result = context.store.read(HALF_TOPIC, 0, half_offset, 1)
        if result.status in _TOO_SMALL:
            result = context.store.read(HALF_TOPIC, 0, result.next_queue_offset, 1)
    except (NoReaderError, PluginError):
        return log.min_physical_offset
    if result.messages:
        return max(result.messages[0].physical_offset, log.min_physical_offset)
    is_through = result.status in (
        ReadStatus.NO_MESSAGE_IN_QUEUE,
        ReadStatus.OFFSET_OVERFLOW_ONE,
    )
    return end if is_through and not result.holes else log.min_physical_offset

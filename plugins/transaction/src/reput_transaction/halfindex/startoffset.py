"""Where a reader without a snapshot begins, mostly in a store that RocketMQ wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.errors import NoReaderError, PluginError
from reput.status import ReadStatus
from reput_transaction.layout import HALF_TOPIC

if TYPE_CHECKING:
    from reput.plugin import StoreContext

_TOO_SMALL = (ReadStatus.OFFSET_TOO_SMALL,)


def first_needed(context: StoreContext, half_offset: int) -> int:
    """Return a physical offset below which no half message is open.

    The record that ends a half message comes after it, so that nothing before the first unfinished
    half message needs to be read. If the queues do not tell, the whole log is needed.

    Args:
        context: of a read-only store.
        half_offset: queue offset below which all half messages are known to be finished.
    """
    log = context.log
    if not context.clean:
        return log.min_physical_offset  # the queues may be behind the log's end
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

"""Names the oldest transactions that nothing has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput.record.layout import PROPERTY_KEYS, PROPERTY_UNIQ_KEY
from reput_tools.doctor.statistics.halfmessages import HalfMessages, dangling
from reput_tools.doctor.storereport.reportmodel import OpenTransaction, Transactions

if TYPE_CHECKING:
    from reput.log import LogView

OLDEST_MAX: Final = 20
"""Open transactions that are named."""
_REAL_TOPIC: Final = "REAL_TOPIC"
_GROUP: Final = "PGROUP"


def transactions_of(
    seen: HalfMessages, finished_below: dict[int, int], log: LogView
) -> Transactions:
    """Return what is open, and the oldest of it by name.

    Args:
        seen: the records read of the log.
        finished_below: as for `dangling`.
        log: where the messages are.
    """
    halves, prepared = dangling(seen, finished_below)
    places = [(row[2], row[3], row[1]) for row in halves[:OLDEST_MAX].tolist()]
    places += [(row[0], row[1], None) for row in prepared[:OLDEST_MAX].tolist()]
    times = [*halves[:, 3].tolist(), *prepared[:, 1].tolist()]
    oldest = sorted(places, key=lambda each: each[0])[:OLDEST_MAX]
    return Transactions(
        half_count=seen.half_count,
        open_count=len(halves) + len(prepared),
        oldest=tuple(_named(log, *place) for place in oldest),
        oldest_timestamp=min(times, default=None),
        prepared=int(seen.kinds[1]),
        committed=int(seen.kinds[2]),
        rolled_back=int(seen.kinds[3]),
        unread_ops=seen.unread_ops,
    )


def _named(
    log: LogView, physical_offset: int, store_timestamp: int, queue_offset: int | None
) -> OpenTransaction:
    message = log.read_message(physical_offset)
    properties = {} if message is None else message.properties
    topic = None if message is None else message.topic
    return OpenTransaction(
        physical_offset=physical_offset,
        store_timestamp=store_timestamp,
        queue_offset=queue_offset,
        topic=properties.get(_REAL_TOPIC, topic),
        group=properties.get(_GROUP),
        key=properties.get(PROPERTY_UNIQ_KEY, properties.get(PROPERTY_KEYS)),
    )

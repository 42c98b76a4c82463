"""Rows that columns do not hold: IPv6 hosts, record checksums, property texts with inner names.

They go the way of single messages: many times slower, and rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record import host_of, inner_message_count, light_queue_names, parse_properties
from reput.record.layout import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_spark.writing.parts import Rows
from reput_spark.writing.sidecars import NO_ORDINAL

if TYPE_CHECKING:
    from reput.record import Prepared
    from reput_spark.writing.parts import Part
    from reput_spark.writing.segments import SegmentWriter

__all__ = ["encode_rows"]


def encode_rows(writer: SegmentWriter, part: Part) -> Iterator[Rows]:
    """The records of a part, one by one.

    Raises:
        PutError: a row that is no message.
        ValueError: one whose bytes depend on its queue offset, or that fits into no file.
    """
    for row, message in enumerate(part.columns.to_messages()):
        if part.born_hosts is not None:
            message = attrs.evolve(message, born_host=host_of(part.born_hosts[row]))
        host = part.store_host if part.store_hosts is None else part.store_hosts[row]
        encoder = writer.encoder_of(host)
        prepared = encoder.prepare(message)
        _refuse_inner(writer, prepared, row)
        key = message.topic, message.queue_id
        counts = prepared[9] & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
        ordinal = writer.next.get(key, 0) if counts else 0
        position = writer.make_room(prepared[0], row, message.topic)
        stored = writer.plan.store_timestamp
        if part.store_timestamps is not None:
            stored = int(part.store_timestamps[row])
        size = prepared[0].to_bytes(4, "big")
        data = size + encoder.finish(prepared, ordinal, position, stored)
        if counts:
            writer.next[key] = ordinal + 1
        yield Rows(
            data,
            np.array([len(data)]),
            np.array([writer.group_of(key)]),
            np.array([ordinal if counts else NO_ORDINAL]),
        )


def _refuse_inner(writer: SegmentWriter, prepared: Prepared, row: int) -> None:
    """Refuse what says its queue offset in words, which nobody knows before all is written."""
    if not prepared[10]:
        return
    message = prepared[4]
    if prepared[9] & INNER_BATCH or inner_message_count(prepared) != 1:
        raise ValueError(
            f"row {row} of these, of topic {message.topic}: a record that counts as several "
            "messages; Spark writes none"
        )
    properties = parse_properties(prepared[7])
    if writer.plan.light_queues and light_queue_names(message.topic, properties):
        raise ValueError(
            f"row {row} of these, of topic {message.topic}: a message of light queues; Spark does "
            "not write them, as long as the store has light_queues on"
        )

"""What a row of a stream and its record in the log have in common, as keys to compare.

A key is a hash of the topic, the queue, the body (its length and checksum), the numbers that a
sender gives, and all properties: keys and tags are among them, so that rows without a body are as
different as their keys. Some names need care:

* what the store itself adds (a record's checksum, places in light queues) is in no key;
* a message with a delay, or of a transaction, may be in the log as it was put, or
  parked in a topic of the plugin that does it, which then names its own topic and queue. Each way
  has a key of its own: a direct row is never taken for a parked one, nor for its delivery;
* a name that no row of the batch has may be one that a plugin gives to each message: it is ignored
  in a record.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from reput.record import encode_property_text, parse_properties, prepare_columns
from reput.record.layout import (
    BORN_HOST_V6,
    MAGIC_V2,
    PROPERTY_CRC,
    PROPERTY_INNER_BASE,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    STORE_HOST_V6,
    TRANSACTION_MASK,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import Columns, DispatchBatch, Encoder, PreparedMany

_REAL_TOPIC: Final = "REAL_TOPIC"
_REAL_QUEUE: Final = "REAL_QID"
_LEVEL: Final = "DELAY"
_TIMES: Final = frozenset({"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"})
_ASKS: Final = _TIMES | {_LEVEL, "TRAN_MSG"}
_PARKING: Final = frozenset({_REAL_TOPIC, _REAL_QUEUE, "TIMER_OUT_MS", "__transactionId__"})
"""What parking a message adds to it."""
_AGAIN: Final = frozenset({"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"})
"""What a delivery adds, or parking what is parked."""
_STORES: Final = frozenset({PROPERTY_CRC, PROPERTY_INNER_BASE, PROPERTY_LIGHT_QUEUE_OFFSETS})
ALWAYS_COMPARED: Final = _ASKS | _PARKING | _AGAIN | {"TRANSACTION_CHECK_TIMES"}
"""Names that distinguish a message from its deliveries, whether rows have them or not."""

_HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6
_CRC_MASK: Final = 0x7FFFFFFF
_QUEUE_DIGITS: Final = 10
_NUMBERS: Final = (
    "body_crc",
    "body_size",
    "born_timestamp",
    "flag",
    "reconsume_times",
    "prepared_transaction_offset",
)
_PACKED: Final = struct.Struct("<8q")


@attrs.frozen
class Facts:
    """One row, or one record."""

    topic: str
    queue_id: int
    sys_flag: int
    numbers: tuple[int, ...]
    """Of `_NUMBERS`."""
    properties: Mapping[str, str]


class Keys(NamedTuple):
    """Hashes of one row or record, by the ways in which one becomes the other; 0 where none."""

    direct: int
    """As it was put."""
    parked: int
    """As it waits."""
    capped: int
    """As it waits at a lower level, if the store does not have its own."""
    delivered: int
    """As it has come out of where it waited."""


# --------------------------------------------------------------------------- facts


def facts_of(columns: Columns, encoder: Encoder) -> Iterator[Facts]:
    """Return the facts of rows."""
    prepared = prepare_columns(columns, encoder)
    if prepared is not None:
        yield from _facts_of_many(prepared)
        return
    for each in columns.to_messages():  # rows of a rare kind, which are put one by one as well
        crc = zlib.crc32(each.body) & _CRC_MASK
        given = (getattr(each, name) for name in _NUMBERS[2:])
        numbers = (crc, len(each.body), *given)
        text = encode_property_text(each)
        yield Facts(each.topic, each.queue_id or 0, each.sys_flag, numbers, parse_properties(text))


def _facts_of_many(prepared: PreparedMany) -> Iterator[Facts]:
    header = prepared.header
    numbers_of = zip(*(header[name].tolist() for name in _NUMBERS), strict=True)
    queues, flags = prepared.queue_id.tolist(), header["sys_flag"].tolist()
    widths = np.where(header["magic"] == MAGIC_V2, 2, 1).tolist()
    for topic, queue, flag, numbers, tail, width in zip(
        prepared.topics, queues, flags, numbers_of, prepared.tails, widths, strict=True
    ):
        # The size of the topic, the topic, two bytes of the size of the properties.
        text = tail[width + int.from_bytes(tail[:width]) + 2 :]
        yield Facts(topic, queue, flag, numbers, parse_properties(text))


def facts_in(batch: DispatchBatch, rows: npt.NDArray[np.int64]) -> Iterator[Facts]:
    """Return the facts of some records of a batch."""
    columns = [batch.column(name)[rows].tolist() for name in _NUMBERS if name != "body_size"]
    columns.insert(_NUMBERS.index("body_size"), batch.body.sizes[rows].tolist())
    texts = batch.properties_text
    starts, sizes = texts.starts[rows].tolist(), texts.sizes[rows].tolist()
    codes, queues = batch.topic_code[rows].tolist(), batch.queue_id[rows].tolist()
    flags, numbers_of = batch.sys_flag[rows].tolist(), zip(*columns, strict=True)
    for start, size, code, queue, flag, numbers in zip(
        starts, sizes, codes, queues, flags, numbers_of, strict=True
    ):
        text = texts.window[start : start + size].tobytes() if size > 0 else b""
        yield Facts(batch.topics[code], queue, flag, numbers, parse_properties(text))


# --------------------------------------------------------------------------- keys


def row_keys(facts: Facts) -> Keys:
    """Return the keys of a row, for all the forms in which it may be in the log."""
    entries = {name: text for name, text in facts.properties.items() if name not in _STORES}
    place = facts.topic, facts.queue_id
    direct = _key(facts, place, entries, is_plain=False)
    if ALWAYS_COMPARED.isdisjoint(entries) and not facts.sys_flag & TRANSACTION_MASK:
        return Keys(direct, direct, 0, 0)  # nothing is taken out: nearly all rows
    return Keys(
        direct,
        _key(facts, place, _waiting(entries)),
        _capped(facts, place, entries),
        _key(facts, place, _come(entries)) if not _ASKS.isdisjoint(entries) else 0,
    )


def record_keys(facts: Facts, names: frozenset[str]) -> Keys:
    """Return the keys of a record, by which it is found among the rows.

    Args:
        facts: of the record.
        names: of the properties that are compared.
    """
    entries = {name: text for name, text in facts.properties.items() if name in names}
    own = facts.topic, facts.queue_id
    direct = _key(facts, own, entries, is_plain=False)
    topic, queue = entries.get(_REAL_TOPIC), entries.get(_REAL_QUEUE, "")
    if topic is None or not (queue.isascii() and queue.isdigit() and len(queue) <= _QUEUE_DIGITS):
        return Keys(direct, 0, 0, 0)
    place = topic, int(queue)
    if topic == facts.topic:
        return Keys(direct, 0, 0, _key(facts, place, _come(entries)) if place == own else 0)
    return Keys(direct, _key(facts, place, _waiting(entries)), _capped(facts, place, entries), 0)


def _waiting(entries: Mapping[str, str]) -> dict[str, str]:
    """Return what a parked message still has of its own; a level goes before a time."""
    gone = _PARKING | _TIMES if _LEVEL in entries else _PARKING
    return {name: text for name, text in entries.items() if name not in gone}


def _capped(facts: Facts, place: tuple[str, int], entries: Mapping[str, str]) -> int:
    if _LEVEL not in entries:
        return 0
    return _key(facts, place, {**_waiting(entries), _LEVEL: ""})


def _come(entries: Mapping[str, str]) -> dict[str, str]:
    """Return what a delivery has of its row, however long the row has waited."""
    gone = _ASKS | _PARKING | _AGAIN
    return {name: text for name, text in entries.items() if name not in gone}


def _key(
    facts: Facts, place: tuple[str, int], entries: Mapping[str, str], *, is_plain: bool = True
) -> int:
    # A plugin that parks a message takes the bits of a transaction out of it.
    bits = _HOST_BITS | TRANSACTION_MASK if is_plain else _HOST_BITS
    hashed = hashlib.blake2b(digest_size=8)
    hashed.update(_PACKED.pack(place[1], facts.sys_flag & ~bits, *facts.numbers))
    # No property of a name holds 0x02, and no topic does.
    texts = [f"{name}\1{text}\2" for name, text in sorted(entries.items())]
    hashed.update(f"{place[0]}\2{''.join(texts)}".encode())
    return int.from_bytes(hashed.digest(), "little", signed=True) or 1

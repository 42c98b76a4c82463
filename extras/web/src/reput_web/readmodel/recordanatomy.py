"""The bytes of a record, field by field, with what each field means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from reput.record.layout import (
    BORN_HOST_V6,
    COMPRESSED,
    INNER_BATCH,
    MAGIC_V1,
    MULTI_TAGS,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    host_size,
)
from reput_web.readmodel.rows import TRANSACTIONS

if TYPE_CHECKING:
    from reput import MessageView

PROPERTY_MEANINGS: Final = {
    "CLUSTER": "cluster of the broker that took the message",
    "CONSUME_START_TIME": "when a consumer began to process it, ms",
    "DELAY": "delay level: the message is delivered after the time of this level",
    "DLQ_ORIGIN_MESSAGE_ID": "id of the message that became this dead letter",
    "DLQ_ORIGIN_TOPIC": "topic of the message that became this dead letter",
    "INNER_BASE": "queue offset of the first message of a batch",
    "INNER_MULTI_DISPATCH": "light queues that also hold the message",
    "INNER_MULTI_QUEUE_OFFSET": "its queue offsets in the light queues",
    "INNER_NUM": "messages in a batch",
    "KEYS": "words by which the message is found",
    "MAX_OFFSET": "queue offset of the newest message when this one was read",
    "MIN_OFFSET": "queue offset of the oldest message when this one was read",
    "MSG_REGION": "region of the broker",
    "ORIGIN_MESSAGE_ID": "id of the first message, of which this one is a retry",
    "PGROUP": "group of the producer",
    "POP_CK": "receipt handle of a popped message",
    "REAL_QID": "queue for which the message is meant",
    "REAL_TOPIC": "topic for which the message is meant",
    "RECONSUME_TIME": "how often consumers have sent it back",
    "RETRY_TOPIC": "topic in which the group has read it first",
    "TAGS": "tags by which consumers choose",
    "TIMER_DELAY_MS": "delivered after so many milliseconds",
    "TIMER_DELAY_SEC": "delivered after so many seconds",
    "TIMER_DELIVER_MS": "delivered at this time, ms",
    "TIMER_OUT_MS": "when the timer wheel delivers it, ms",
    "TRACE_ON": "whether the client traces the message",
    "TRAN_MSG": "whether it is a half message of a transaction",
    "TRANSACTION_CHECK_TIMES": "how often the broker has asked the producer for the outcome",
    "UNIQ_KEY": "id that the producer's client gave it",
    "WAIT": "whether the producer waits for the disk",
    "__CRC32#": "checksum of the whole record",
    "__SHARDINGKEY": "key by which the producer chose the queue",
    "__STARTDELIVERTIME": "delivered at this time, ms",
    "id": "offset message id, of clients for other languages",
    "traceparent": "trace context of W3C",
}
"""Known properties of RocketMQ, and what they mean."""


@attrs.frozen(kw_only=True)
class RecordField:
    """One field of a record."""

    name: str
    start: int
    """Position in the record, bytes."""
    size: int
    value: str
    meaning: str


def fields_of(message: MessageView) -> list[RecordField]:
    """Return the fields of a record in their order."""
    return list(_fields(message))


def flags_of(sys_flag: int) -> list[str]:
    """Return what the bits of a system flag say."""
    found = []
    if sys_flag & COMPRESSED:
        found.append("compressed body")
    if sys_flag & MULTI_TAGS:
        found.append("several tags")
    if sys_flag & TRANSACTION_MASK:
        found.append(f"transaction: {TRANSACTIONS[sys_flag & TRANSACTION_MASK]}")
    if sys_flag & BORN_HOST_V6:
        found.append("born host is IPv6")
    if sys_flag & STORE_HOST_V6:
        found.append("store host is IPv6")
    if sys_flag & INNER_BATCH:
        found.append("batch")
    return found


def _fields(message: MessageView) -> Iterator[RecordField]:
    from reput_tools.cli.kit import format_timestamp

    record, flag = message.record, message.sys_flag
    body_at, topic_at, topic_end, properties_at = message.places()
    is_v1 = int.from_bytes(record[4:8], "big") == MAGIC_V1
    length_size = 1 if is_v1 else 2
    born, stored = message.born_timestamp, message.store_timestamp
    at = 0
    hosts = host_size(flag, BORN_HOST_V6), host_size(flag, STORE_HOST_V6)
    body_end = topic_at - length_size
    properties_end = len(record)
    topic_size, properties_size = topic_end - topic_at, properties_end - properties_at
    born_host = ":".join(map(str, message.born_host))
    store_host = ":".join(map(str, message.store_host))
    matches = "matches the body" if message.body_matches() else "does not match the body"
    for name, size, value, meaning in (
        ("size", 4, message.size, "bytes of the whole record"),
        ("magic", 4, record[4:8].hex(), f"version {1 if is_v1 else 2} of the format"),
        ("body crc", 4, message.body_crc, f"checksum of the body; it {matches}"),
        ("queue id", 4, message.queue_id, "queue of the topic"),
        ("flag", 4, message.flag, "32 bits of the application"),
        ("queue offset", 8, message.queue_offset, "ordinal of the message in its queue"),
        ("physical offset", 8, message.stated_offset, "where the record says that it begins"),
        ("system flag", 4, flag, ", ".join(flags_of(flag)) or "no bit is set"),
        ("born timestamp", 8, born, format_timestamp(born)),
        ("born host", hosts[0], born_host, "address of the producer"),
        ("store timestamp", 8, stored, format_timestamp(stored)),
        ("store host", hosts[1], store_host, "address of the store"),
        ("reconsume times", 4, message.reconsume_times, "how often it was sent back"),
        (
            "prepared offset",
            8,
            message.prepared_transaction_offset,
            "physical offset of the half message that this record ends",
        ),
        ("body size", 4, body_end - body_at, "bytes"),
        ("body", body_end - body_at, "", "as stored"),
        ("topic size", length_size, topic_size, "bytes"),
        ("topic", topic_size, message.topic, "name of the topic"),
        ("properties size", 2, properties_size, "bytes"),
        ("properties", properties_size, "", "names and values, separated by bytes 1 and 2"),
    ):
        yield RecordField(name=name, start=at, size=size, value=str(value), meaning=meaning)
        at += size

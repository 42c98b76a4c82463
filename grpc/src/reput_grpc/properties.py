"""Properties of messages on both sides: what clients say, and what the store keeps.

Source: RocketMQ ``SendMessageActivity.buildMessageProperty``, ``GrpcConverter``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from reput.record import unpack_body
from reput_grpc.types import MessageType, m, set_milliseconds

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer import Popped

__all__ = ["CHECKSUM_FORMAT", "GROUP", "IMMUNITY", "RESERVED", "TIMED", "shown", "shown_half"]

GROUP: Final = "__SHARDINGKEY"
TIMED: Final = "TIMER_DELIVER_MS"
IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
_RESERVED_NAMES: Final = """
KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION
TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INSTANCE_ID
CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK
POP_CK_OFFSET FIRST_POP_TIME SHARDINGKEY __SHARDINGKEY __transactionId__ TIMER_DELIVER_MS
TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL TIMER_DEL_MS TRANSACTION_CHECK_TIMES
CHECK_IMMUNITY_TIME_IN_SECONDS TRANSACTION_PREPARED_QUEUE_OFFSET TRANSACTION_ID DLQ_ORIGIN_TOPIC
DLQ_ORIGIN_MESSAGE_ID INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET INNER_NUM INNER_BASE __CRC32#
ORIGIN_GROUP BORN_HOST BORN_TIMESTAMP RECALL_HANDLE __RMQ.TRANSIENT.GROUP_SYS_FLAG
"""
RESERVED: Final = frozenset(_RESERVED_NAMES.split())
"""Properties that clients may not set by themselves; they are not shown either."""
CHECKSUM_FORMAT: Final = "X"
"""How Java's client writes a checksum: clients compare the texts."""
_NO_DIGEST: Final = 0
_CRC32: Final = 1
_IDENTITY: Final = 1
_TYPE_OF_FLAG: Final = 0xC


def shown(
    popped: Popped, topic: Any, handle: str, invisible_ms: int | None, *, checksum: str
) -> Any:
    """Return a message that was handed out, as clients see it.

    Args:
        popped: the message.
        topic: as the client named it.
        handle: its receipt.
        invisible_ms: for how long nobody else gets it; None if the server sees to that.
        checksum: format of the body's checksum; empty for a client that is to compare none.
    """
    view = popped.view
    message = _of(view, topic)
    system = message.system_properties
    system.receipt_handle = handle
    system.queue_id = view.queue_id
    system.queue_offset = popped.queue_offset
    system.delivery_attempt = popped.attempt_count
    if invisible_ms is not None:
        set_milliseconds(system.invisible_duration, invisible_ms)
    if checksum:
        system.body_digest.checksum = format(zlib.crc32(message.body), checksum)
    else:
        system.body_digest.type = _NO_DIGEST  # there, as that client needs the field
    origin = view.properties.get("DLQ_ORIGIN_TOPIC")
    if origin is not None:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = view.properties.get("DLQ_ORIGIN_MESSAGE_ID", "")
    return message


def shown_half(view: MessageView, topic: Any) -> Any:
    """Return a half message as its producer is asked about it."""
    message = _of(view, topic)
    message.system_properties.message_type = MessageType.TRANSACTION
    immunity = view.properties.get(IMMUNITY, "")
    if immunity.isascii() and immunity.isdigit():
        duration = message.system_properties.orphaned_transaction_recovery_duration
        set_milliseconds(duration, min(int(immunity[:9]), 3_600) * 1_000)
    return message


def _of(view: MessageView, topic: Any) -> Any:
    body = unpack_body(view.body, view.sys_flag) if view.sys_flag & 1 else view.body
    properties = view.properties
    message = m.Message(topic=topic, body=bytes(body))
    for name, value in properties.items():
        if name not in RESERVED:
            message.user_properties[name] = value
    system = message.system_properties
    if view.tags is not None:
        system.tag = view.tags
    system.keys.extend(view.keys)
    system.message_id = view.unique_key or view.msg_id
    system.body_digest.type = _CRC32
    system.body_digest.checksum = format(zlib.crc32(message.body), CHECKSUM_FORMAT)
    system.body_encoding = _IDENTITY
    system.message_type = _type_of(view)
    set_milliseconds(system.born_timestamp, view.born_timestamp)
    host, port = view.born_host[:2]
    system.born_host = f"{host}:{port}"
    set_milliseconds(system.store_timestamp, view.store_timestamp)
    store_host, store_port = view.store_host[:2]
    system.store_host = f"{store_host}:{store_port}"
    deliver = properties.get(TIMED) or properties.get("TIMER_OUT_MS") or ""
    if deliver.isascii() and deliver.isdigit():
        set_milliseconds(system.delivery_timestamp, int(deliver[:18]))
    if GROUP in properties:
        system.message_group = properties[GROUP]
    trace = properties.get("__TRACE_CONTEXT__")
    if trace is not None:
        system.trace_context = trace
    return message


def _type_of(view: MessageView) -> MessageType:
    properties = view.properties
    if view.sys_flag & _TYPE_OF_FLAG or properties.get("TRAN_MSG") == "true":
        return MessageType.TRANSACTION
    if TIMED in properties or "TIMER_OUT_MS" in properties:
        return MessageType.DELAY
    return MessageType.FIFO if GROUP in properties else MessageType.NORMAL

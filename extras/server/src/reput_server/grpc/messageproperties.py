"""Properties of messages on both sides: what clients say, and what the store keeps.

Source: RocketMQ ``SendMessageActivity.buildMessageProperty``, ``GrpcConverter``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.record import unpack_body
from reput_server.broker.litenames import LISTED, LITE_TOPIC
from reput_server.broker.send.messageproperties import PRIORITY, priority_of
from reput_server.grpc.messagetypes import MessageType, m, set_milliseconds

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer import Popped

GROUP: Final = "__SHARDINGKEY"
TIMED: Final = "TIMER_DELIVER_MS"
_DURATIONS: Final = "TIMER_DELAY_SEC", "TIMER_DELAY_MS"
"""Properties with a time from the send on."""
_SLOT: Final = "TIMER_OUT_MS"
"""The slot of the timer wheel: one tick before that of the delivery, most often a second."""
_TIME_END: Final = 253_402_300_800_000
"""The year 10,000, ms: later times cannot be shown."""
IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE: Final = "TRACE_CONTEXT"
_RESERVED_NAMES: Final = """
TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET
MAX_OFFSET BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY
MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET
DUP_INFO EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME
CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS
TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL
__BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_
__LITE_TOPIC
"""
RESERVED: Final = frozenset(_RESERVED_NAMES.split())
"""Properties that clients may not set by themselves; they are not shown either.

Source: RocketMQ ``MessageConst.STRING_HASH_SET``.
"""
_HIDDEN: Final = RESERVED | {"ORIGIN_GROUP", LISTED}
"""Those, what retries note, and the light queues of lite topics."""
_MD5: Final = 2
_IDENTITY: Final = 1


def shown(popped: Popped, topic: Any, handle: str) -> Any:
    """Return a message that was handed out, as clients see it.

    Args:
        popped: the message.
        topic: as the client named it.
        handle: its receipt.
    """
    view = popped.view
    message = _of(view, topic)
    system = message.system_properties
    system.receipt_handle = handle
    system.queue_id = view.queue_id
    system.queue_offset = popped.queue_offset
    system.delivery_attempt = popped.attempt_count
    origin = view.properties.get("DLQ_ORIGIN_TOPIC")
    if origin is not None:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = view.properties.get("DLQ_ORIGIN_MESSAGE_ID", "")
    return message


def shown_half(view: MessageView, topic: Any) -> Any:
    """Return a half message for a check-back of its producer."""
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
    body = bytes(body)
    message = m.Message(topic=topic, body=body)
    shown = {name: value for name, value in properties.items() if name not in _HIDDEN}
    if shown:
        message.user_properties.update(shown)
    system = message.system_properties
    if view.tags is not None:
        system.tag = view.tags
    system.keys.extend(view.keys)
    system.message_id = view.unique_key or view.msg_id
    # Clients in all languages write this one in the same way; of a CRC-32 they do not.
    digest = system.body_digest
    digest.type = _MD5
    digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = _IDENTITY
    system.message_type = _type_of(view)
    set_milliseconds(system.born_timestamp, view.born_timestamp)
    system.born_host = properties.get(BORN_HOST, "").strip() or view.born_host[0]
    set_milliseconds(system.store_timestamp, view.store_timestamp)
    store_host, store_port = view.store_host[:2]
    system.store_host = f"{store_host}:{store_port}"
    deliver = _deliver_time(properties)
    if deliver is not None:
        set_milliseconds(system.delivery_timestamp, deliver)
    if GROUP in properties:
        system.message_group = properties[GROUP]
    if LITE_TOPIC in properties:
        system.lite_topic = properties[LITE_TOPIC]
    priority = priority_of(properties)
    if priority is not None:
        system.priority = priority
    trace = properties.get(TRACE)
    if trace is not None:
        system.trace_context = trace
    return message


def _type_of(view: MessageView) -> MessageType:
    properties = view.properties
    if properties.get("TRAN_MSG") == "true":
        return MessageType.TRANSACTION
    # A message that comes back has a level, too, which is 0.
    if (
        properties.get("DELAY", "0") != "0"
        or TIMED in properties
        or any(name in properties for name in _DURATIONS)
    ):
        return MessageType.DELAY
    return untimed_type_of(properties)


def _deliver_time(properties: Mapping[str, str]) -> int | None:
    """Return when a message was to be delivered, ms; None without a time.

    Clients of other protocols may state a duration, which counts before a time.
    """
    if any(name in properties for name in _DURATIONS):
        slot = _time(properties.get(_SLOT))
        if slot is not None:
            return slot
    return _time(properties.get(TIMED))


def _time(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(_TIME_END)):
        return None
    return timestamp if (timestamp := int(text)) < _TIME_END else None


def untimed_type_of(properties: Mapping[str, str]) -> MessageType:
    """Return the type of a message that has neither a time nor a transaction.

    Source: RocketMQ ``TopicMessageType.parseFromMessageProperty``.
    """
    if GROUP in properties:
        return MessageType.FIFO
    if PRIORITY in properties:
        return MessageType.PRIORITY
    return MessageType.LITE if LITE_TOPIC in properties else MessageType.NORMAL

"""The messages of a transaction: the half, its copies, the final message.

Source: RocketMQ ``TransactionalMessageBridge#parseHalfMessageInner``, ``#renewHalfMessageInner``,
``EndTransactionProcessor#endMessageTransaction``,
``DefaultTransactionalMessageCheckListener#toMessageExtBrokerInner``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from reput.errors import MessageIllegalError
from reput.record import (
    Message,
    check_topic,
    encode_properties,
    encode_property_text,
    parse_properties,
)
from reput.record.layout import (
    BORN_HOST_V6,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)
from reput_transaction.errors import TransactionError
from reput_transaction.layout import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    PROPERTY_CHECK_TIMES,
    PROPERTY_DELAY,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRANSACTION_ID,
    PROPERTY_TRANSACTIONAL,
    SYSTEM_TOPICS,
)
from reput_transaction.messages.halfmessage import QUEUE_ID_MAX

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_transaction.messages.halfmessage import HalfMessage

_MARK = PROPERTY_TRANSACTIONAL.encode()


def is_transactional(message: Message) -> bool:
    """Return whether a put of ``message`` begins a transaction.

    False for a message with transaction bits and for one in the topics of transactions: such a
    message is restored as it was, perhaps from a copy of a store.
    """
    properties = message.properties
    if properties is None:
        return False
    if type(properties) is bytes:
        if _MARK not in properties:
            return False
        properties = parse_properties(properties)
    elif PROPERTY_TRANSACTIONAL not in properties:
        return False
    assert isinstance(properties, Mapping)
    if str(properties.get(PROPERTY_TRANSACTIONAL)).lower() != "true":
        return False
    if message.sys_flag & TRANSACTION_MASK or message.topic in SYSTEM_TOPICS:
        return False
    return not (message.reconsume_times > 0 and _delay_level(properties) > 0)


def _delay_level(properties: Mapping[str, str | None]) -> int:
    try:
        return int(properties.get(PROPERTY_DELAY) or 0)
    except ValueError:
        return 0


def with_properties(message: Message, added: Mapping[str, str]) -> Message:
    """Return ``message`` with the properties ``added``, which replace those of the same name."""
    properties = message.properties
    if isinstance(properties, bytes):
        properties = parse_properties(properties)
    return attrs.evolve(message, properties={**(properties or {}), **added})


def half_of(message: Message) -> Message:
    """Return the half message in which ``message`` is parked until its transaction ends.

    The message names its queue.

    Raises:
        MessageIllegalError: ``message`` could be parked, but never be committed.
    """
    check_topic(message.topic)
    if message.topic in SYSTEM_TOPICS:
        raise MessageIllegalError("topic", message.topic, None, "transactions are made of it")
    if message.queue_id is None or not 0 <= message.queue_id <= QUEUE_ID_MAX:
        raise MessageIllegalError("queue_id", message.queue_id, QUEUE_ID_MAX, "no queue id")
    encode_property_text(message)  # before more are added: an error must name the user's own
    added = {
        PROPERTY_REAL_TOPIC: message.topic,
        PROPERTY_REAL_QUEUE_ID: str(message.queue_id),
    }
    half = with_properties(message, added)
    assert isinstance(half.properties, Mapping)
    unique_key = half.properties.get(PROPERTY_UNIQ_KEY)
    if unique_key:
        half = with_properties(half, {PROPERTY_TRANSACTION_ID: unique_key})
    return attrs.evolve(
        half, topic=HALF_TOPIC, queue_id=0, sys_flag=message.sys_flag & ~TRANSACTION_MASK
    )


def committed_of(message: Message, half: Message) -> Message:
    """Return what a commit of ``half`` will put, as far as it is known before ``half`` is stored.

    Args:
        message: the message that is prepared.
        half: what `half_of` returned for it.
    """
    return attrs.evolve(
        half,
        topic=message.topic,
        queue_id=message.queue_id,
        sys_flag=half.sys_flag | TRANSACTION_COMMIT,
    )


def final_of(half: HalfMessage) -> Message:
    """Return the message that a commit puts: under the real topic, with a link back to its half.

    Raises:
        TransactionError: the half message does not name its real topic and queue.
    """
    record = half.record
    topic, queue_id = half.topic, half.queue_id
    if topic is None or queue_id is None or topic in SYSTEM_TOPICS:
        raise TransactionError(
            f"half message at physical offset {record.physical_offset} cannot be committed: its "
            f"properties say {PROPERTY_REAL_TOPIC}={topic!r} and {PROPERTY_REAL_QUEUE_ID}="
            f"{record.properties.get(PROPERTY_REAL_QUEUE_ID)!r}, a topic and a queue expected; "
            "roll it back"
        )
    return attrs.evolve(
        record.to_message(),
        topic=topic,
        queue_id=queue_id,
        # All properties stay, including those of the half, as the same bytes.
        properties=record.properties_text,
        sys_flag=_plain_flag(record) | TRANSACTION_COMMIT,
        prepared_transaction_offset=record.physical_offset,
    )


def copy_of(record: MessageView, check_times: int) -> Message:
    """Return the copy that replaces a half message after a check without an answer."""
    return attrs.evolve(
        record.to_message(),
        properties=_with_check_times(record, check_times),
        sys_flag=_plain_flag(record),
        flag=0,  # RocketMQ also loses the flag here
        reconsume_times=0,
        prepared_transaction_offset=0,
    )


def given_up(record: MessageView, check_times: int) -> Message:
    """Return the message that replaces a half message that is given up."""
    return attrs.evolve(
        record.to_message(),
        topic=GIVEN_UP_TOPIC,
        queue_id=0,
        properties=_with_check_times(record, check_times),
        sys_flag=_plain_flag(record),
        prepared_transaction_offset=0,
    )


def _with_check_times(record: MessageView, check_times: int) -> bytes:
    properties = dict(record.properties)
    if check_times:
        properties[PROPERTY_CHECK_TIMES] = str(check_times)
    # Keys and tags first, in the order of a new message.
    for name in (PROPERTY_TAGS, PROPERTY_KEYS):
        if name in properties:
            properties = {name: properties.pop(name), **properties}
    return encode_properties(properties).encode()


def _plain_flag(record: MessageView) -> int:
    return record.sys_flag & ~(TRANSACTION_MASK | BORN_HOST_V6 | STORE_HOST_V6)

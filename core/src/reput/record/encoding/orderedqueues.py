"""Queues of messages that a key keeps in order: all messages with the key go to one queue.

Source: RocketMQ ``SelectMessageQueueByHash``, so that a store and the clients of brokers choose
alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.record.encoding.batchencoder import Columns, rows_of
from reput.record.messages.message import plain_message, shown
from reput.record.text.javatext import java_string_hash

if TYPE_CHECKING:
    from reput.record.messages.message import Message

_INT_MAX: Final = 1 << 31
_KEYS_KEPT: Final = 1 << 16


def ordered_queue(key: Any, queue_count: int) -> int:
    """Return the queue of all messages with this key, among ``queue_count`` queues.

    Args:
        key: a text or a whole number.
        queue_count: 1 or more.

    Source: RocketMQ ``SelectMessageQueueByHash``, for a ``String``, an ``Integer`` or, for numbers
    of more than 32 bits, a ``Long``.

    Raises:
        TypeError: ``key`` is neither a text nor a whole number.
    """
    if not isinstance(key, str | int) or isinstance(key, bool):
        raise TypeError(f"ordered_by: a string or an integer expected, found {shown(key)}")
    return abs(_hash(key)) % queue_count


def message_in_order(message: Message, key: Any, queue_count: Callable[[str], int]) -> Message:
    """Return ``message`` with the queue of its key.

    Args:
        message: has no queue.
        key: the key; None leaves the message as it is.
        queue_count: returns the number of queues of a topic.

    Raises:
        ValueError: the message names a queue.
        TypeError: a wrong key.
    """
    if key is None:
        return message
    message = plain_message(message)
    if message.queue_id is not None:
        raise ValueError("queue_id and ordered_by: one of them expected, or none")
    return attrs.evolve(message, queue_id=ordered_queue(key, queue_count(message.topic)))


def messages_in_order(
    messages: Sequence[Message], keys: Any, queue_count: Callable[[str], int]
) -> list[Message]:
    """Return ``messages`` with the queues of their keys; see `message_in_order`.

    Args:
        messages: the messages.
        keys: one key of all, or a sequence with a key or None for each.
        queue_count: returns the number of queues of a topic.
    """
    pairs = zip(messages, _keys(keys, len(messages)), strict=True)
    return [message_in_order(message, key, queue_count) for message, key in pairs]


def columns_in_order(columns: Columns, keys: Any, queue_count: Callable[[str], int]) -> Columns:
    """Return ``columns`` with the queues of their keys; see `messages_in_order`."""
    if columns.queue_id is not None:
        raise ValueError("queue_id and ordered_by: one of them expected, or none")
    counts: dict[str, int] = {}
    queues: list[int | None] = []
    for topic, key in zip(rows_of(columns, "topic"), _keys(keys, len(columns)), strict=True):
        if topic not in counts:
            counts[topic] = queue_count(topic)
        queues.append(None if key is None else ordered_queue(key, counts[topic]))
    return attrs.evolve(columns, queue_id=queues)


def _keys(keys: Any, count: int) -> Sequence[Any]:
    if isinstance(keys, str | int):
        return [keys] * count
    if not isinstance(keys, Sequence) or isinstance(keys, bytes | bytearray | memoryview):
        keys = keys.tolist() if hasattr(keys, "tolist") else keys
    if not isinstance(keys, list | tuple):
        raise TypeError(f"ordered_by: a key, or a list of keys expected, found {shown(keys)}")
    if len(keys) != count:
        raise ValueError(
            f"ordered_by: {count} keys expected, one for each message, not {len(keys)}"
        )
    return keys


@functools.lru_cache(_KEYS_KEPT)
def _hash(key: str | int) -> int:
    if isinstance(key, str):
        return java_string_hash(key)
    return key if -_INT_MAX <= key < _INT_MAX else _java_long_hash(key)


def _java_long_hash(number: int) -> int:
    bits = number & 0xFFFF_FFFF_FFFF_FFFF
    folded = (bits ^ bits >> 32) & 0xFFFF_FFFF
    return folded - (1 << 32) if folded >= _INT_MAX else folded

"""Messages whose fields hold built-in types, as plugins and the log expect them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from reput.record.messages.message import Message
from reput.record.messages.plain import (
    BYTES,
    plain_bytes,
    plain_integer,
    plain_properties,
    plain_text,
    shown,
)

__all__ = ["listed_messages", "plain_message"]

_INTEGERS = ("queue_id", "flag", "sys_flag", "reconsume_times", "prepared_transaction_offset")
_TEXT_OR_NONE = {str, type(None)}


def plain_message(message: Any) -> Message:
    """Return ``message`` with built-in types in all fields; the same object if it has them.

    Raises:
        TypeError: ``message`` is no `reput.Message`.
        MessageIllegalError: a field has a wrong type.
    """
    if not isinstance(message, Message):
        raise TypeError(f"message: a reput.Message expected, found {shown(message)}")
    if _is_plain(message):
        return message
    changed: dict[str, Any] = {name: _number(message, name) for name in _INTEGERS}
    if message.born_timestamp is not None:
        changed["born_timestamp"] = _number(message, "born_timestamp")
    changed["topic"] = plain_text("topic", message.topic)
    changed["body"] = plain_bytes("body", message.body)
    if message.tags is not None:
        changed["tags"] = plain_text("tags", message.tags)
    changed["properties"] = plain_properties(message.properties)
    return attrs.evolve(message, **changed)


def listed_messages(messages: Any) -> Sequence[Message]:
    """Return ``messages`` as a sequence, which can be iterated more than once.

    Raises:
        TypeError: ``messages`` is no iterable of messages.
    """
    if isinstance(messages, list | tuple):
        return messages
    if isinstance(messages, Iterable) and not isinstance(messages, (str, Mapping, *BYTES)):
        return list(messages)
    text = "messages: a sequence of reput.Message, or reput.Columns expected"
    raise TypeError(f"{text}, found {shown(messages)}")


def _is_plain(message: Message) -> bool:
    """Whether the fields that plugins read, or that become keys here, have built-in types."""
    properties = message.properties
    if type(properties) is dict:
        if not (
            set(map(type, properties.values())) <= _TEXT_OR_NONE
            and set(map(type, properties)) <= {str}
        ):
            return False
    elif properties is not None and type(properties) is not bytes:
        return False
    return (
        type(message.topic) is str
        and type(message.queue_id) is int
        and type(message.sys_flag) is int
        and type(message.body) is bytes
        and (message.tags is None or type(message.tags) is str)
    )


def _number(message: Message, name: str) -> int:
    return plain_integer(name, getattr(message, name))

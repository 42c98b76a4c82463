"""`Message`, which a producer puts, and what its fields take.

A `str` of any class is a text, whatever it prints; the same holds for bytes and whole numbers. A
value of another kind is refused, with its type in the error. A store returns messages as
`reput.record.MessageView`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from reput.errors import MessageIllegalError
from reput.record.checksum import SECTOR_SIZE, looks_torn
from reput.record.layout import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_WAIT
from reput.record.text.properties import parse_properties

Host = tuple[str, int]
"""Address (IPv4 or IPv6, as text) and port."""


# Not frozen: an object of a frozen class takes three times as long to make.
@attrs.define
class Message:
    """One message to be stored.

    ``tags``, ``keys`` and ``properties`` become one property text in the record. Do not change a
    message while it is being put.
    """

    topic: str
    """Letters, digits and ``% | _ -``, at most 127; at most 255 if it begins with ``%RETRY%`` or
    ``%DLQ%``."""
    body: bytes = b""
    queue_id: int | None = None
    """The queue of the topic, 0 or more. When left out, the store chooses: the queues of the topic
    take turns, or ``ordered_by`` of the put decides."""
    tags: str | None = None
    keys: str | Sequence[str] | None = None
    """Keys that find the message: a sequence of words, or one text with spaces between words."""
    properties: Mapping[str, str | None] | bytes | None = None
    """Further properties; ``bytes`` are a whole encoded property text, stored unchanged."""
    flag: int = 0
    """32 bits for the application."""
    sys_flag: int = 0
    """Compression and transaction bits; the store sets the bits of the hosts."""
    born_timestamp: int | None = None
    """ms; the store timestamp when left out."""
    born_host: Host | None = None
    """The store's own host when left out."""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


NUMBERS: Final = (
    "queue_id",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
    "born_timestamp",
)
"""Fields of a message that are fields of the same names in a record's header."""


def encode_property_text(message: Message) -> bytes:
    """Return the property text of ``message``: keys, tags, then its properties in their order.

    Raises:
        MessageIllegalError: a name or value would be read back as something else.
    """
    return property_text(message.keys, message.tags, message.properties)


def property_text(
    keys: str | Sequence[str] | None,
    tags: str | None,
    properties: Mapping[str, str | None] | bytes | None,
) -> bytes:
    """Return the property text of a message with these fields; see `encode_property_text`."""
    if properties is not None and type(properties) is not dict:
        properties = _plain_properties(properties)
        if isinstance(properties, bytes):
            if keys is not None or tags is not None:
                reason = "encoded properties hold keys and tags; give no others"
                raise MessageIllegalError("properties", None, None, reason)
            return _written_whole(properties)
    text, count = "", 0
    if keys is not None:
        if type(keys) is not str:
            keys = _joined(keys)
        if keys:
            text, count = f"{PROPERTY_KEYS}\x01{keys}\x02", 1
    if tags is not None:
        if type(tags) is not str:
            tags = plain_text("tags", tags)
        text = f"{text}{PROPERTY_TAGS}\x01{tags}\x02"
        count += 1
    if properties:
        if text and (PROPERTY_KEYS in properties or PROPERTY_TAGS in properties):
            properties = _without_fields(keys, tags, properties)
        for name, value in properties.items():
            name = _checked_name(name)
            if type(value) is not str:
                if value is None:
                    continue
                value = plain_text(f"property {name!r}", value)
            text = f"{text}{name}\x01{value}\x02"
            count += 1
    # Names were checked. A value may contain 0x01: RocketMQ 5 reads it back, 4.8 does not.
    if text.count("\x02") != count:
        raise MessageIllegalError(
            "properties", text, None, "the character 0x02 separates properties"
        )
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise MessageIllegalError("properties", text, None, f"not UTF-8: {error}") from None
    return encoded if len(encoded) < SECTOR_SIZE else _written_whole(encoded)


def _without_fields(
    keys: str | None, tags: str | None, properties: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return ``properties`` without the entries that ``keys`` and ``tags`` repeat."""
    rest = dict(properties)
    for field, name, value in [("keys", PROPERTY_KEYS, keys), ("tags", PROPERTY_TAGS, tags)]:
        if value is None or (field == "keys" and not value):
            continue  # the field writes no property
        other = rest.pop(name, None)
        if other is not None and other != value:
            text = f"differs from the property {name!r}, {shown(other)}; give one of the two"
            raise MessageIllegalError(field, value, None, text)
    return rest


def _written_whole(text: bytes) -> bytes:
    """Return ``text``; refuse a text that recovery would take for one torn by a power cut."""
    reason = looks_torn(text)
    if reason is not None:
        raise MessageIllegalError("properties", None, None, reason)
    return text


def _joined(keys: object) -> str:
    """Return ``keys`` as one text; a `str` of any class is a text, not a sequence of letters."""
    if isinstance(keys, str):
        return plain_text("keys", keys)
    if not isinstance(keys, Iterable) or isinstance(keys, BYTES):
        raise refused("keys", keys, "a string or a sequence of strings expected")
    words = [plain_text("keys", word) for word in keys]
    joined = " ".join(words)
    if words and joined.count(" ") != len(words) - 1:
        raise MessageIllegalError("keys", joined, None, "a space inside a key would split it")
    return joined


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise refused("properties", name, "a property's name expected")
    if "\x01" in name or "\x02" in name:
        raise MessageIllegalError(
            "properties", name, None, "the characters 0x01 and 0x02 separate properties"
        )
    return plain_text("properties", name)


_NO_WAIT = b"WAIT\x01false"


def waits_for_disk(properties: bytes) -> bool:
    """Whether the put of a message with this property text waits until the message is on disk.

    It waits unless the property ``WAIT`` is ``false``. RocketMQ does not wait for any other word
    than ``true``.

    Source: ``Message#isWaitStoreMsgOK``.
    """
    if _NO_WAIT not in properties:  # the usual case
        return True
    return parse_properties(properties).get(PROPERTY_WAIT) != "false"


# --------------------------------------------------------------------------- what callers give

_TEXT_OR_NONE = {str, type(None)}
_MAY_BE_NONE = ("queue_id", "born_timestamp")


def plain_message(message: Any) -> Message:
    """Return ``message`` with built-in types in all fields; the same object if it has them.

    Raises:
        TypeError: ``message`` is not a `reput.Message`.
        MessageIllegalError: a field has a wrong type.
    """
    if not isinstance(message, Message):
        raise TypeError(f"message: a reput.Message expected, found {shown(message)}")
    if _is_plain(message):
        return message
    numbers: dict[str, Any] = {
        name: plain_integer(name, getattr(message, name))
        for name in NUMBERS
        if name not in _MAY_BE_NONE or getattr(message, name) is not None
    }
    return attrs.evolve(
        message,
        topic=plain_text("topic", message.topic),
        body=plain_bytes("body", message.body),
        tags=None if message.tags is None else plain_text("tags", message.tags),
        properties=_plain_properties(message.properties),
        **numbers,
    )


def _plain_properties(properties: object) -> dict[str, str | None] | bytes | None:
    if properties is None:
        return None
    if isinstance(properties, BYTES):
        return bytes(properties)
    if not isinstance(properties, Mapping):
        reason = "a mapping, or an encoded property text as bytes expected"
        raise refused("properties", properties, reason)
    return {
        plain_text("properties", name): None
        if value is None
        else plain_text(f"property {name!r}", value)
        for name, value in properties.items()
    }


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
        and (message.queue_id is None or type(message.queue_id) is int)
        and type(message.sys_flag) is int
        and type(message.body) is bytes
        and (message.tags is None or type(message.tags) is str)
    )


BYTES = (bytes, bytearray, memoryview)
_SHOWN = 60  # characters of a value in an error text


def plain_text(field: str, value: object) -> str:
    """Return ``value`` as a `str`.

    Raises:
        MessageIllegalError: ``value`` is not a text.
    """
    if isinstance(value, str):
        return str.__str__(value)  # `str` of a member of ``class Color(str, Enum)`` is its name
    raise refused(field, value, "a string expected")


def plain_bytes(field: str, value: object, row: int | None = None) -> bytes:
    """Return the bytes of ``value``: `bytes`, `bytearray` or `memoryview`.

    Raises:
        MessageIllegalError: ``value`` is of another type.
    """
    if isinstance(value, BYTES):
        return bytes(value)
    raise refused(field, value, "bytes expected" if row is None else f"row {row}: bytes expected")


def plain_integer(field: str, value: Any) -> int:
    """Return ``value`` as an `int`.

    Raises:
        MessageIllegalError: ``value`` is not a whole number.
    """
    try:
        return int(operator.index(value))
    except TypeError:
        raise refused(field, value, "an integer expected") from None


def refused(field: str, value: object, reason: str) -> MessageIllegalError:
    """Return the error for a value of a wrong type in a field of a message."""
    return MessageIllegalError(field, None, None, f"{reason}, found {shown(value)}")


def shown(value: object) -> str:
    """Return the type of ``value`` and the beginning of its `repr`, for an error text."""
    text = repr(value)
    if value is None:
        return text
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"

"""`Message`: what a producer hands in. What the store hands out is a `reput.record.MessageView`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from reput.errors import MessageIllegalError
from reput.record.layout import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_WAIT
from reput.record.plain import plain_properties, plain_text, shown
from reput.record.torn import SECTOR_SIZE, looks_torn

__all__ = ["Host", "Message", "encode_property_text", "property_text", "waits_for_disk"]

Host = tuple[str, int]
"""Address (IPv4 or IPv6, as text) and port."""


# Not frozen, against the rule for values: a frozen class takes three times as long to make, and
# producers make one for every put.
@attrs.define
class Message:
    """One message to be stored.

    ``tags``, ``keys`` and ``properties`` become one property text in the record. A message must not
    be changed while a put of it is going on.
    """

    topic: str
    """Letters, digits and ``% | _ -``, at most 127; longer only with ``%RETRY%`` in front."""
    body: bytes = b""
    queue_id: int = 0
    """The queue of the topic, 0 or more."""
    tags: str | None = None
    keys: str | Sequence[str] | None = None
    """Keys to find the message by: a sequence of words, or one text with spaces between them."""
    properties: Mapping[str, str | None] | bytes | None = None
    """Further properties; as ``bytes`` they are a whole encoded property text, used as it is."""
    flag: int = 0
    """32 bits of the application's own."""
    sys_flag: int = 0
    """Compression and transaction bits; those of the hosts are set by the store."""
    born_timestamp: int | None = None
    """ms; the store timestamp when left out."""
    born_host: Host | None = None
    """The store's own host when left out."""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def encode_property_text(message: Message) -> bytes:
    """The property text of ``message``: keys, tags, then its properties in their order.

    Raises:
        MessageIllegalError: a name or value that would be read back as something else.
    """
    return property_text(message.keys, message.tags, message.properties)


def property_text(
    keys: str | Sequence[str] | None,
    tags: str | None,
    properties: Mapping[str, str | None] | bytes | None,
) -> bytes:
    """`encode_property_text` of the fields that it needs."""
    if type(properties) is not dict and properties is not None:
        properties = properties if type(properties) is bytes else plain_properties(properties)
    if type(properties) is bytes:
        if keys is not None or tags is not None:
            raise MessageIllegalError(
                "properties", None, None, "encoded properties hold keys and tags; give no others"
            )
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
            properties = _without_fields(keys, tags, properties)  # type: ignore[arg-type]
        names = _checked_names
        for name, value in properties.items():  # type: ignore[union-attr]
            if name not in names:
                name = _checked_name(name)
            elif type(name) is not str:
                name = plain_text("properties", name)
            if type(value) is not str:
                if value is None:
                    continue
                value = plain_text(f"property {name!r}", value)
            text = f"{text}{name}\x01{value}\x02"
            count += 1
    # Names were checked, so that one count is enough: a value may hold the other separator, which
    # RocketMQ 5 reads back, and 4.8 does not.
    if text.count("\x02") != count:
        raise MessageIllegalError(
            "properties", text, None, "the character 0x02 separates properties"
        )
    try:
        return _written_whole(text.encode())
    except UnicodeEncodeError as error:
        raise MessageIllegalError("properties", text, None, f"not UTF-8: {error}") from None


def _without_fields(
    keys: str | None, tags: str | None, properties: Mapping[str, str | None]
) -> dict[str, str | None]:
    """``properties`` less those that ``keys`` and ``tags`` say, too.

    Who reads a property text that holds one twice sees the last.
    """
    rest = dict(properties)
    for field, name, value in [("keys", PROPERTY_KEYS, keys), ("tags", PROPERTY_TAGS, tags)]:
        if value is None or (field == "keys" and not value):
            continue  # nothing is written for it
        other = rest.pop(name, None)
        if other is not None and other != value:
            text = f"differs from the property {name!r}, {shown(other)}; give one of the two"
            raise MessageIllegalError(field, value, None, text)
    return rest


def _written_whole(text: bytes) -> bytes:
    """``text``, which an opening after a power cut will not take for the rest of another."""
    if text[-1:] == b"\0" or len(text) >= SECTOR_SIZE:  # most are short, and every put comes by
        reason = looks_torn(text)
        if reason is not None:
            raise MessageIllegalError("properties", None, None, reason)
    return text


def _joined(keys: object) -> str:
    """Keys in one text: a subclass of `str` is one already, and no sequence of letters."""
    if isinstance(keys, str):
        return plain_text("keys", keys)
    words = keys if isinstance(keys, list | tuple) else _listed(keys)
    try:
        joined = " ".join(words)
    except TypeError:
        joined = " ".join([plain_text("keys", word) for word in words])
    if words and joined.count(" ") != len(words) - 1:
        raise MessageIllegalError("keys", joined, None, "a space inside a key would split it")
    return joined


def _listed(keys: object) -> list[Any]:
    if isinstance(keys, Iterable) and not isinstance(keys, bytes | bytearray | memoryview):
        return list(keys)
    raise MessageIllegalError("keys", shown(keys), None, "a text or a sequence of texts expected")


# Names come from a small set that a program uses again and again; each is looked at once.
_checked_names: set[str] = set()
_NAMES_KEPT = 65_536


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not (name := plain_text("properties", name)):
        raise MessageIllegalError("properties", shown(name), None, "a property's name expected")
    if "\x01" in name or "\x02" in name:
        raise MessageIllegalError(
            "properties", name, None, "the characters 0x01 and 0x02 separate properties"
        )
    if len(_checked_names) >= _NAMES_KEPT:
        _checked_names.clear()
    _checked_names.add(name)
    return name


_NO_WAIT = b"WAIT\x01false"


def waits_for_disk(properties: bytes) -> bool:
    """Whether the put of a message with that property text is to wait until it is on disk.

    It waits unless the property ``WAIT`` is ``false``. RocketMQ takes every word but ``true`` for
    ``false``; to wait where somebody meant not to breaks no promise, the other way round does.

    Source: ``Message#isWaitStoreMsgOK``.
    """
    if _NO_WAIT not in properties:  # as in most; only a hit is worth reading the whole text
        return True
    from reput.record.text.properties import (
        parse_properties,  # brings numpy, which a message needs not
    )

    return parse_properties(properties).get(PROPERTY_WAIT) != "false"

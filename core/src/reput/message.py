"""`Message`: what a producer hands in. What the store hands out is a `reput.view.MessageView`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from reput.errors import MessageIllegalError
from reput.layout import PROPERTY_KEYS, PROPERTY_TAGS
from reput.tornproperties import SECTOR_SIZE, looks_torn

__all__ = ["Host", "Message", "encode_property_text", "property_text"]

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
    if type(properties) is bytes:
        if keys is not None or tags is not None:
            raise MessageIllegalError(
                "properties", None, None, "encoded properties hold keys and tags; give no others"
            )
        return _written_whole(properties)
    text, count = "", 0
    if keys:
        if type(keys) is not str:
            keys = _joined(keys)
        text, count = f"{PROPERTY_KEYS}\x01{keys}\x02", 1
    if tags is not None:
        text = f"{text}{PROPERTY_TAGS}\x01{tags}\x02"
        count += 1
    if properties:
        names = _checked_names
        for name, value in properties.items():  # type: ignore[union-attr]
            if name not in names:
                _check_name(name)
            if value is not None:
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


def _written_whole(text: bytes) -> bytes:
    """``text``, which an opening after a power cut will not take for the rest of another."""
    if text[-1:] == b"\0" or len(text) >= SECTOR_SIZE:  # most are short, and every put comes by
        reason = looks_torn(text)
        if reason is not None:
            raise MessageIllegalError("properties", None, None, reason)
    return text


def _joined(keys: Sequence[str]) -> str:
    joined = " ".join(keys)
    if joined.count(" ") != len(keys) - 1:
        raise MessageIllegalError("keys", joined, None, "a space inside a key would split it")
    return joined


# Names come from a small set that a program uses again and again; each is looked at once.
_checked_names: set[str] = set()
_NAMES_KEPT = 65_536


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise MessageIllegalError("properties", name, None, "a property's name expected")
    if "\x01" in name or "\x02" in name:
        raise MessageIllegalError(
            "properties", name, None, "the characters 0x01 and 0x02 separate properties"
        )
    if len(_checked_names) >= _NAMES_KEPT:
        _checked_names.clear()
    _checked_names.add(name)

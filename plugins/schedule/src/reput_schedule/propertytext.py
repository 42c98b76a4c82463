"""Edit property texts: read the entries, write them back, and lose no byte of a value.

Entries are written in the order in which the map of RocketMQ 4.8 has them, so that a message that
RocketMQ would have stored is stored with the same bytes. No reader depends on the order.

Source: ``MessageDecoder#messageProperties2String`` over a ``java.util.HashMap``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from reput.errors import MessageIllegalError
from reput.record import Message, encode_property_text, java_string_hash
from reput.record.layout import NAME_END, VALUE_END

_NAME_END, _VALUE_END = chr(NAME_END), chr(VALUE_END)
_END: Final = bytes([VALUE_END])
_CAPACITY: Final = 16
_LOAD: Final = 0.75


def entries_of(message: Message) -> dict[str, str]:
    """Return all properties of a message, including keys and tags.

    Bytes that are not UTF-8 become lone surrogates, which `text_of` turns back into the bytes.

    Raises:
        MessageIllegalError: a name or value would be read back as something else.
    """
    text = encode_property_text(message).decode("utf-8", "surrogateescape")
    entries = {}
    for entry in text.split(_VALUE_END):
        name, separator, value = entry.partition(_NAME_END)
        if separator and name:
            entries[name] = value
    return entries


def text_of(entries: Mapping[str, str]) -> bytes:
    """Return the property text of ``entries``, in the order of RocketMQ 4.8."""
    text = "".join(
        f"{name}{_NAME_END}{entries[name]}{_VALUE_END}" for name in java_map_order(tuple(entries))
    )
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise MessageIllegalError("properties", text, None, f"not UTF-8: {error}") from None


# A program uses few sets of names, in few orders, so that the cache answers nearly always.
@lru_cache(maxsize=1024)
def java_map_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``names`` in the order of a ``HashMap`` into which they were put one by one."""
    capacity = _CAPACITY
    while len(names) > capacity * _LOAD:
        capacity *= 2

    def bucket(name: str) -> int:
        # A lone surrogate is hashed as a replacement; that changes the place of its name only.
        code = java_string_hash(name.encode("utf-8", "replace").decode()) & 0xFFFFFFFF
        return (code ^ code >> 16) & (capacity - 1)

    return tuple(sorted(names, key=bucket))  # stable: within a bucket they stay as they came


def entry_value(text: bytes, entry_start: bytes) -> bytes | None:
    """Return the value of the last entry that begins with ``entry_start``, a name and separator.

    Returns:
        The value; None if there is no such entry, or the last one is empty.
    """
    at = text.rfind(_END + entry_start)
    if at >= 0:
        start = at + 1 + len(entry_start)
    elif text.startswith(entry_start):
        start = len(entry_start)
    else:
        return None
    end = text.find(_END, start)
    return text[start : end if end >= 0 else len(text)] or None


def java_long(text: str) -> int | None:
    """Return the number that a text states, as Java's ``Long.parseLong``; None for other texts."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None

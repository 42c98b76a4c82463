"""Tables of documents: found by name, checked, and their values converted as brokers do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from reput_tools.brokerfiles.loosevalues import integer_of, same_name

_BITS: Final = 63
_INT_BITS: Final = 32
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def section_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table ``name`` of a document, to read or to change; an empty one if it has none.

    A value that is not a table is replaced by one: check documents by `table_of` before.
    """
    found = document.get(name)
    if found is None:
        # As brokers do, which take another spelling of a member's name, too.
        for each in [key for key in document if same_name(key, name)]:
            found = document.pop(each)
    if not isinstance(found, dict):
        found = {}
    document[name] = found
    return found


def table_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the table ``name`` of a document, only to read; an empty one if it has none.

    Raises:
        ValueError: the value is not a table.
    """
    found = document.get(name)
    if found is None:
        for each in document:
            found = document[each] if same_name(each, name) else found
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{name!r} is not a table")
    return found


def offsets_of(found: object, what: str, numbers: range) -> dict[int, int]:
    """Return offsets by number: of queues, or of levels.

    Args:
        found: the table.
        what: what the table belongs to, for messages.
        numbers: the valid numbers; offsets of others are left out, and negative ones.

    Raises:
        ValueError: it is not a table, or has a value that brokers do not read as an integer.
    """
    if not isinstance(found, dict):
        raise ValueError(f"{what} has no table of offsets")
    offsets = {}
    for name, value in found.items():
        if not _INTEGER.fullmatch(name):
            raise ValueError(f"{what}: {name!r:.40} is not a number of a queue")
        offset, number = offset_of(value, what), int(name)
        if not -1 <= number >> (_INT_BITS - 1) <= 0:
            raise ValueError(f"{what}: {name} has more than {_INT_BITS} bits")
        if number in numbers and offset >= 0:
            offsets[number] = offset
    return offsets


def offset_of(value: object, what: str) -> int:
    """Return an offset, converted as brokers do.

    Raises:
        ValueError: brokers do not convert the value to an integer of 64 bits.
    """
    try:
        offset = value if type(value) is int else integer_of(value)
    except ValueError:
        offset = None
    if offset is None or not -1 <= offset >> _BITS <= 0:
        raise ValueError(f"{what:.200}: {value!r:.40} is not an offset")
    return offset


def change_time(document: Mapping[str, Any]) -> int:
    """Return when a document was changed last, ms, as its data version states; -1 if unknown."""
    version = document.get("dataVersion")
    found = version.get("timestamp") if isinstance(version, dict) else None
    try:
        time = integer_of(found)
    except ValueError:
        time = None
    return -1 if time is None else time

"""Values of members as RocketMQ's reader of JSON takes them: in any type that can be converted.

Clients in C++ write numbers as texts and enums as numbers. None is what is null, or counts as null
for its type.

Source: fastjson 1.2.83, ``TypeUtils.castToInt``, ``castToLong``, ``castToBoolean``,
``EnumDeserializer``, ``StringCodec``; recorded in ``tests/golden/peers``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_NULLS: Final = frozenset({"", "null", "NULL"})
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,20}")
_WHOLE: Final = re.compile(r"\.0*\Z")
_INT_BITS: Final = 32
_TRUE: Final = frozenset({"1", "Y", "y", "T"})
_FALSE: Final = frozenset({"0", "F", "N", "n"})
_plain: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def text_of(value: object) -> str | None:
    """Return a value as a text: numbers and booleans as they are written, others as JSON."""
    if value is None or isinstance(value, str):
        return value
    return _plain(value)


def integer_of(value: object, bits: int = 64) -> int | None:
    """Return an integer; a decimal loses what follows its point, and true is 1.

    Raises:
        ValueError: ``value`` has another type, or more bits.
    """
    if isinstance(value, str):
        value = _integer_of_text(value, bits)
    if value is None:
        return None
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    limit = 1 << (bits - 1)
    if not isinstance(value, int) or not -limit <= value < limit:
        raise ValueError(f"an integer of {bits} bits expected")
    return int(value)


def flag_of(value: object) -> bool | None:
    """Return a boolean; of numbers only 1 is true.

    Raises:
        ValueError: ``value`` has another type, or is another text.
    """
    if isinstance(value, int | float):
        return integer_of(value, _INT_BITS) == 1
    if value is None or (isinstance(value, str) and value in _NULLS):
        return None
    if isinstance(value, str):
        if value in _TRUE or value.lower() == "true":
            return True
        if value in _FALSE or value.lower() == "false":
            return False
    raise ValueError("true or false expected")


def name_of(value: object, names: Sequence[str]) -> str | None:
    """Return the name of an enum's constant, of which a number is the place.

    A text that is not a name counts as null.

    Raises:
        ValueError: ``value`` has another type, or there are fewer constants.
    """
    if value is None:
        return None
    if isinstance(value, str):
        lower = {name.lower(): name for name in names}
        return value if value in names else lower.get(value)
    if type(value) is int and 0 <= value < len(names):
        return names[value]
    raise ValueError(f"one of {', '.join(names)} expected")


def member_of(found: Mapping[Any, Any], name: str) -> object:
    """Return a member; its name may differ in case, hyphens and underscores.

    None if it does not exist.
    """
    if name in found:
        return found[name]
    for each, value in found.items():
        if same_name(each, name):
            return value
    return None


def same_name(found: object, name: str) -> bool:
    """Whether a member's name is ``name``, perhaps in another case, with hyphens or underscores."""
    return isinstance(found, str) and (found == name or plain_name(found) == plain_name(name))


def plain_name(name: str) -> str:
    """Return what all spellings of a member's name have in common."""
    return name.replace("_", "").replace("-", "").lower()


def _integer_of_text(text: str, bits: int) -> int | None:
    if text in _NULLS:
        return None
    digits = text.replace(",", "")
    if bits == _INT_BITS:
        digits = _WHOLE.sub("", digits)
    if not _DIGITS.fullmatch(digits):
        raise ValueError(f"an integer of {bits} bits expected")
    return int(digits)

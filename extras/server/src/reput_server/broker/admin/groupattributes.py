"""Attributes of groups, and how an operator's request changes them.

Source: RocketMQ ``SubscriptionGroupAttributes``, ``AttributeUtil``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reput_client.remoting import BodyObject

_BOOLEANS: Final = frozenset({"true", "false"})
_LONG_MAX: Final = (1 << 63) - 1
_LENGTH_MAX: Final = 255
_KNOWN: Final[dict[str, frozenset[str] | tuple[int, int] | None]] = {
    "lite.bind.topic": None,
    "lite.sub.client.max.event.cnt": (10, _LONG_MAX),
    "lite.sub.client.quota": (-1, _LONG_MAX),
    "lite.sub.model": frozenset({"Exclusive", "Shared"}),
    "lite.sub.reset.offset.exclusive": _BOOLEANS,
    "lite.sub.reset.offset.unsubscribe": _BOOLEANS,
    "priority.factor": (0, 100),
}
"""Attributes, and their values: some words, a range of numbers, or None for any."""


def changed_attributes(before: Mapping[str, str], changes: BodyObject) -> dict[str, str]:
    """Return a group's attributes, changed by members such as ``+NAME`` and ``-NAME``.

    A name without a sign sets the attribute, too.

    Raises:
        BodyError: a value is not a text.
        ValueError: an attribute that groups do not have, or not with that value.
    """
    after = dict(before)
    for key in changes.found:
        name = str(key).lstrip("+-")
        if name not in _KNOWN:
            raise ValueError(f"unsupported key: {name[:80]}; known are {', '.join(_KNOWN)}")
        if str(key).startswith("-"):
            after.pop(name, None)
        else:
            value = changes.text(key, "")
            _check(name, value)
            after[name] = value
    return after


def _check(name: str, value: str) -> None:
    values = _KNOWN[name]
    if values is None:
        if not 0 < len(value) <= _LENGTH_MAX:
            raise ValueError(f"{name}: 1 to {_LENGTH_MAX} characters expected")
    elif isinstance(values, frozenset):
        if value not in values:
            raise ValueError(f"{name}: value is not in set: {', '.join(sorted(values))}")
    else:
        digits = value.removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= 19
        if not is_number or not values[0] <= int(value) <= values[1]:
            raise ValueError(f"{name}: a number from {values[0]} to {values[1]} expected")

"""Checks arguments of public methods; errors name the argument and what was found.

Each function returns the argument, of a built-in type where there is one, and raises a `TypeError`
for a value of another kind.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from reput.plugin.base import Plugin
from reput.record.messages.message import shown

_FOR_EVER = 1e9  # seconds; on some systems locks take no longer timeouts


def text_argument(argument: str, value: Any) -> str:
    """Return a text."""
    if isinstance(value, str):
        return str.__str__(value)  # see `reput.record.messages.message`
    raise _refused(argument, value, "a string")


def whole_number(argument: str, value: Any) -> int:
    """Return a whole number."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise _refused(argument, value, "an integer") from None


def flag_argument(argument: str, value: Any) -> bool:
    """Return True or False; a text such as "no" is neither."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's own
        return bool(value)
    raise _refused(argument, value, "True or False")


def function_argument(argument: str, value: Any) -> Any:
    """Return a function, or None."""
    if value is None or callable(value):
        return value
    raise _refused(argument, value, "a function")


def names_argument(argument: str, value: Any) -> list[str]:
    """Return a collection of texts as a list; a single text is none."""
    return [text_argument(argument, each) for each in listed(argument, value, "strings")]


def listed(argument: str, value: Any, what: str) -> list[Any]:
    """Return a collection of ``what`` as a list; a single text is none."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping)):
        return list(value)
    raise _refused(argument, value, f"a collection of {what}")


def path_argument(argument: str, value: Any) -> str:
    """Return the path of a directory or a file.

    Raises:
        TypeError: ``value`` is not a path.
        ValueError: ``value`` is empty, as a shell's unset variable is, or contains a NUL byte.
    """
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise _refused(argument, value, "a path") from None
    if not path:
        raise ValueError(f'{argument}: it is empty; "." is the working directory')
    if "\0" in path:
        raise ValueError(f"{argument}: a path without NUL bytes expected, found {shown(value)}")
    return path


def plugin_argument(argument: str, value: Any) -> str | Plugin:
    """Return a plugin's name or object; or a class, about which a later error says what to do."""
    if isinstance(value, str | Plugin | type):
        return value  # type: ignore[return-value]
    raise _refused(argument, value, "a plugin's name, or a reput.Plugin object")


def seconds_argument(argument: str, value: Any) -> float | None:
    """Return a number of seconds, or None.

    Negative seconds, as after a deadline, become 0; infinity becomes a long time.

    Raises:
        TypeError: ``value`` is not a number.
        ValueError: ``value`` is NaN.
    """
    if value is None:
        return None
    if isinstance(value, (str, bytes, bool)) or not hasattr(type(value), "__float__"):
        raise _refused(argument, value, "a number of seconds")
    seconds = float(value)
    if math.isnan(seconds):
        raise ValueError(f"{argument}: a number of seconds expected, found {shown(value)}")
    return min(max(seconds, 0.0), _FOR_EVER)


def table_argument(argument: str, value: Any) -> Mapping[str, Any]:
    """Return a mapping; an empty one for None."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise _refused(argument, value, "a mapping")


def _refused(argument: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{argument}: {expected} expected, found {shown(value)}")

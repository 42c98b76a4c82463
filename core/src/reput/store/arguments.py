"""Arguments of calls, checked before anything is done: what is wrong is told with its name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from reput.plugin.base import Plugin
from reput.record.plain import shown, text_argument

__all__ = [
    "flag_argument",
    "function_argument",
    "listed",
    "names_argument",
    "path_argument",
    "plugin_argument",
    "seconds_argument",
    "table_argument",
]

_FOR_EVER = 1e9  # seconds; locks take no longer ones on every system


def flag_argument(argument: str, value: Any) -> bool:
    """The argument of a call that must be True or False: a text such as "no" counts as neither.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's own
        return bool(value)
    raise TypeError(f"{argument}: True or False expected, found {shown(value)}")


def function_argument(argument: str, value: Any) -> Any:
    """The argument of a call that must be a function, or None.

    Raises:
        TypeError: it cannot be called.
    """
    if value is None or callable(value):
        return value
    raise TypeError(f"{argument}: a function expected, found {shown(value)}")


def names_argument(argument: str, value: Any) -> list[str]:
    """The argument of a call that must be several texts; one text is not taken for its letters.

    Raises:
        TypeError: it holds something else, or is itself a text.
    """
    return [text_argument(argument, each) for each in listed(argument, value, "texts")]


def listed(argument: str, value: Any, what: str) -> list[Any]:
    """The argument of a call that must be a collection of ``what``.

    Raises:
        TypeError: it is none, or a single text.
    """
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping)):
        return list(value)
    raise TypeError(f"{argument}: a collection of {what} expected, found {shown(value)}")


def path_argument(argument: str, value: Any) -> str:
    """The argument of a call that must name a directory or a file.

    Raises:
        TypeError: it is no path.
        ValueError: it is empty, as a shell's unset variable is.
    """
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{argument}: a path expected, found {shown(value)}") from None
    if not path:
        raise ValueError(f'{argument}: it is empty; "." is the working directory')
    return path


def plugin_argument(argument: str, value: Any) -> str | Plugin:
    """The argument of a call that must be a plugin: its name, or an object.

    Raises:
        TypeError: it is none. Of a class the error of plugins tells what to do with it.
    """
    if isinstance(value, str | Plugin | type):
        return value  # type: ignore[return-value]
    text = "a plugin's name, or a reput.Plugin object expected"
    raise TypeError(f"{argument}: {text}, found {shown(value)}")


def seconds_argument(argument: str, value: Any) -> float | None:
    """The argument of a call that must be a number of seconds, or None.

    Less than none are none, as where a deadline has passed; for ever is a long time.

    Raises:
        TypeError: it is no number.
        ValueError: it is what computers call "not a number".
    """
    if value is None:
        return None
    if isinstance(value, (str, bytes, bool)) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{argument}: a number of seconds expected, found {shown(value)}")
    seconds = float(value)
    if math.isnan(seconds):
        raise ValueError(f"{argument}: a number of seconds expected, found {shown(value)}")
    return min(max(seconds, 0.0), _FOR_EVER)


def table_argument(argument: str, value: Any) -> Mapping[str, Any]:
    """The argument of a call that must be a mapping, or None, which is an empty one.

    Raises:
        TypeError: it is no mapping.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise TypeError(f"{argument}: a mapping expected, found {shown(value)}")

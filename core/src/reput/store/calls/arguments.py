"""Checks arguments of public methods; errors name the argument and what was found."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from reput.plugin.base import Plugin
from reput.record.messages.plain import shown, text_argument

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

_FOR_EVER = 1e9  # seconds; on some systems locks take no longer timeouts


def flag_argument(argument: str, value: Any) -> bool:
    """Return ``value``, an argument that must be True or False; a text such as "no" is neither.

    Raises:
        TypeError: ``value`` is neither.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's own
        return bool(value)
    raise TypeError(f"{argument}: True or False expected, found {shown(value)}")


def function_argument(argument: str, value: Any) -> Any:
    """Return ``value``, an argument that must be a function or None.

    Raises:
        TypeError: ``value`` cannot be called.
    """
    if value is None or callable(value):
        return value
    raise TypeError(f"{argument}: a function expected, found {shown(value)}")


def names_argument(argument: str, value: Any) -> list[str]:
    """Return ``value``, an argument that must be a collection of texts, as a list.

    Raises:
        TypeError: ``value`` holds something else, or is a single text.
    """
    return [text_argument(argument, each) for each in listed(argument, value, "texts")]


def listed(argument: str, value: Any, what: str) -> list[Any]:
    """Return ``value``, an argument that must be a collection of ``what``, as a list.

    Raises:
        TypeError: ``value`` is no collection, or a single text.
    """
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping)):
        return list(value)
    raise TypeError(f"{argument}: a collection of {what} expected, found {shown(value)}")


def path_argument(argument: str, value: Any) -> str:
    """Return ``value``, an argument that must be the path of a directory or a file.

    Raises:
        TypeError: ``value`` is no path.
        ValueError: ``value`` is empty, as a shell's unset variable is, or contains a NUL byte.
    """
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{argument}: a path expected, found {shown(value)}") from None
    if not path:
        raise ValueError(f'{argument}: it is empty; "." is the working directory')
    if "\0" in path:
        raise ValueError(f"{argument}: a path without NUL bytes expected, found {shown(value)}")
    return path


def plugin_argument(argument: str, value: Any) -> str | Plugin:
    """Return ``value``, an argument that must be a plugin's name or object.

    Raises:
        TypeError: ``value`` is neither, nor a class, about which a later error says what to do.
    """
    if isinstance(value, str | Plugin | type):
        return value  # type: ignore[return-value]
    text = "a plugin's name, or a reput.Plugin object expected"
    raise TypeError(f"{argument}: {text}, found {shown(value)}")


def seconds_argument(argument: str, value: Any) -> float | None:
    """Return ``value``, an argument that must be a number of seconds or None.

    Negative seconds, as after a deadline, become 0; infinity becomes a long time.

    Raises:
        TypeError: ``value`` is no number.
        ValueError: ``value`` is NaN.
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
    """Return ``value``, an argument that must be a mapping, or None for an empty one.

    Raises:
        TypeError: ``value`` is no mapping.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise TypeError(f"{argument}: a mapping expected, found {shown(value)}")

"""What a caller asks a scan for, as a `Selection`: topics, queues, times and conditions."""

from __future__ import annotations

import datetime as dt
import operator
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from reput.errors import ConfigError
from reput.installhints import install_command

if TYPE_CHECKING:
    from reput.plugin import MessageFilter

Moment: TypeAlias = "int | str | dt.datetime | dt.date"
"""A point in time: ms since the epoch, text in ISO 8601, a datetime or a date; UTC without zone."""
Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
CORRUPT: Final = ("fail", "skip", "report")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


def paths_of(path: Paths) -> tuple[str, ...]:
    """Return the paths as texts; URIs stay as they are.

    Raises:
        TypeError: ``path`` is neither a path nor several.
    """
    found: object = path
    if not isinstance(found, str | os.PathLike | Iterable):
        text = f"path: a store's directory expected, found {found!r}"
        raise TypeError(f"{text}; of an open store it is store.root")
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    return tuple(os.fspath(each) for each in given)


def one_or_many(name: str, value: Any, kind: type[Any]) -> frozenset[Any] | None:
    """Return one value or several as a set; None for all.

    Raises:
        ConfigError: none, or one that is something else.
    """
    if value is None:
        return None
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    given: list[Any] = [value] if is_one else list(value)
    found = frozenset(map(_text if kind is str else _integer, given))
    if not found or None in found:
        expected = "strings" if kind is str else "integers"
        raise ConfigError("scan", name, f"one or more {expected} expected, found {value!r}")
    return found


def whole(name: str, value: Any, least: int = _INT64_MIN, most: int = _INT64_MAX) -> int:
    """Return an integer of a range, both ends included; without one, of 64 bits.

    Raises:
        ConfigError: it is something else.
    """
    found = _integer(value)
    if found is None or not least <= found <= most:
        expected = "an integer"
        if (least, most) != (_INT64_MIN, _INT64_MAX):
            expected = f"{expected} from {least} to {most}"
        elif found is not None:
            expected = f"{expected} of 64 bits"
        raise ConfigError("scan", name, f"{expected} expected, found {value!r}")
    return found


def _integer(value: Any) -> int | None:
    """Return an integer, also NumPy's, as Python's; None for another value."""
    try:
        # A boolean is a number for Python, and never what was meant.
        return None if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        return None


def _text(value: Any) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def milliseconds(name: str, value: Any) -> int | None:
    """Return a point in time as ms since the epoch; the next ms, where it is between two.

    Raises:
        ConfigError: it is none.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise _no_time(name, value) from None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        value = -((_EPOCH - moment) // dt.timedelta(milliseconds=1))
    found = _integer(value)
    if found is None or abs(found) > _INT64_MAX:
        raise _no_time(name, value)
    return found


def _no_time(name: str, value: object) -> ConfigError:
    expected = "a time as 2026-01-31T12:00+01:00, a datetime, or ms since the epoch expected"
    return ConfigError("scan", name, f"{expected}, found {value!r}")


def compiled(where: str | MessageFilter | None) -> MessageFilter | None:
    """Return a condition on properties, compiled by the plugin filter.

    Args:
        where: SQL92 as RocketMQ's, a compiled filter, or None for all messages.

    Raises:
        ConfigError: it is not a condition, or reput-filter is not installed.
    """
    if where is None or not isinstance(where, str):
        return where
    try:
        import reput_filter
    except ImportError:
        raise ConfigError(
            "scan", "where", f"it needs the plugin filter: {install_command('filter')}"
        ) from None
    try:
        found: MessageFilter = reput_filter.compile(where, "SQL92", strict=True)
    except ValueError as error:
        raise ConfigError("scan", "where", str(error)) from error
    return found

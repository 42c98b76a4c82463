"""Conditions of a query that are applied while reading: Spark's filters as `Condition` objects."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from reput_arrow.reading.rows import Condition

__all__ = ["Pushed", "conditions_of"]

_NUMBERS: Final = frozenset(
    {
        *("queue_id", "queue_offset", "physical_offset", "size", "tags_code", "body_crc"),
        *("flag", "sys_flag", "reconsume_times", "prepared_transaction_offset"),
    }
)
_TIMES: Final = frozenset({"born_timestamp", "store_timestamp"})
_OPERATORS: Final[tuple[tuple[type[Filter], str], ...]] = (
    (EqualTo, "="),
    (GreaterThan, ">"),
    (GreaterThanOrEqual, ">="),
    (LessThan, "<"),
    (LessThanOrEqual, "<="),
    (In, "in"),
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS: Final = dt.timedelta(milliseconds=1)


class Pushed(NamedTuple):
    """What reading can do about one of Spark's filters."""

    conditions: tuple[Condition, ...]
    is_all: bool
    """Whether the conditions let through only what the filter does; else Spark checks, too."""


def conditions_of(pushed: Filter) -> Pushed:
    """Return the conditions that follow from a filter; none where reading cannot decide it."""
    for kind, operator in _OPERATORS:
        if isinstance(pushed, kind):
            value: Any = getattr(pushed, "value", None)
            attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
            return _conditions(attribute[0], operator, value) if len(attribute) == 1 else _NONE
    return _NONE


def _conditions(column: str, operator: str, value: Any) -> Pushed:
    if column in _TIMES:
        return _times(column, operator, value)
    values = tuple(value) if operator == "in" else (value,)
    is_known = column in _NUMBERS or (column == "topic" and operator in ("=", "in"))
    wanted: type = str if column == "topic" else int
    if not is_known or not all(type(each) is wanted for each in values):
        return _NONE
    return Pushed((Condition(column, operator, values if operator == "in" else value),), True)


def _times(column: str, operator: str, value: Any) -> Pushed:
    """Return bounds in whole ms around a time; Spark compares microseconds, and knows nulls."""
    if operator == "in" or not isinstance(value, dt.datetime) or value.tzinfo is None:
        return _NONE
    low = (value - _EPOCH) // _MS
    high = -((_EPOCH - value) // _MS)
    found: tuple[Condition, ...] = ()
    if operator in ("=", ">", ">="):
        found += (Condition(column, ">=", low),)
    if operator in ("=", "<", "<="):
        found += (Condition(column, "<=", high),)
    return Pushed(found, False)


_NONE: Final = Pushed((), False)

"""Values of Arrow's columns as Python has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types as kinds


def values_of(column: pa.Array) -> list[Any]:
    """Return the values of a column; a map is a dict, and times have microseconds at most."""
    kind = column.type
    if kinds.is_timestamp(kind) and kind.unit == "ns":  # datetime has no nanoseconds
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif kinds.is_time64(kind) and kind.unit == "ns":
        column = column.cast(pa.time64("us"), safe=False)
    values = column.to_pylist()
    return [_plain(kind, value) for value in values] if kinds.is_nested(kind) else values


def _plain(kind: pa.DataType, value: Any) -> Any:
    if value is None or not kinds.is_nested(kind):
        return value
    if kinds.is_map(kind):
        return {key: _plain(kind.item_type, each) for key, each in value}
    if kinds.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    return [_plain(kind.value_type, each) for each in value]

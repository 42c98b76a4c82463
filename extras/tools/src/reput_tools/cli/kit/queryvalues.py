"""Values that a query returns, as text for people and CSV, and as JSON for programs."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def text_of(value: Any) -> str:
    """Return a value as text: times without needless digits, bytes in base64, others as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    found = json_of(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def json_of(value: Any) -> Any:
    """Return a value as JSON has it: numbers stay exact, else they are texts."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return _time(value)
    if isinstance(value, Mapping):
        return {text_of(key): json_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(each) for each in value]
    return str(value)


def _number(value: Decimal) -> Any:
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def _time(value: dt.datetime) -> str:
    if value.microsecond == 0:
        digits = "seconds"
    else:
        digits = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(" ", digits)

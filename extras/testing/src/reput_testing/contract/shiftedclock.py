"""`shifted_clock`: has a plugin's code find another time of day in `time` and `datetime`."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final
from unittest import mock

SHIFT_MS: Final = (1_000 * 86_400 + 3_661) * 1_000 + 7
"""1,000 days, and a bit: another year, month, day, hour, minute, second and millisecond."""
_SHIFT: Final = dt.timedelta(milliseconds=SHIFT_MS)
_time, _time_ns = time.time, time.time_ns


class _Meta(type):
    """Values of the real classes are instances of the shifted ones, too."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])


class _DateTime(dt.datetime, metaclass=_Meta):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return dt.datetime.now(tz) + _SHIFT

    @classmethod
    def utcnow(cls) -> Any:
        return dt.datetime.now(dt.UTC).replace(tzinfo=None) + _SHIFT

    @classmethod
    def today(cls) -> Any:
        return dt.datetime.now() + _SHIFT  # noqa: DTZ005 (as the original)


class _Date(dt.date, metaclass=_Meta):
    @classmethod
    def today(cls) -> Any:
        return dt.date.today() + _SHIFT  # noqa: DTZ011 (as the original)


def _later() -> float:
    return _time() + SHIFT_MS / 1_000


def _later_ns() -> int:
    return _time_ns() + SHIFT_MS * 1_000_000


@contextlib.contextmanager
def shifted_clock(plugin_class: type) -> Iterator[None]:
    """Shift the clock, for the modules of a plugin's distribution, during the ``with`` block.

    These modules find a shifted time in `time.time`, `time.time_ns`, `datetime.datetime` and
    `datetime.date`, however they have imported them.
    """
    shifted = {
        id(time): _like(time, time=_later, time_ns=_later_ns),
        id(dt): _like(dt, datetime=_DateTime, date=_Date),
        id(_time): _later,
        id(_time_ns): _later_ns,
        id(dt.datetime): _DateTime,
        id(dt.date): _Date,
    }
    packages = {kind.__module__.partition(".")[0] for kind in plugin_class.__mro__}
    packages -= {"builtins", "reput"}
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] not in packages:
                continue
            for key, value in list(vars(module).items()):
                if id(value) in shifted:
                    stack.enter_context(mock.patch.object(module, key, shifted[id(value)]))
        # For what is imported inside of functions.
        stack.enter_context(mock.patch.multiple(time, time=_later, time_ns=_later_ns))
        yield


def _like(module: ModuleType, **others: Any) -> ModuleType:
    made = ModuleType(module.__name__)
    vars(made).update(vars(module), **others)
    return made

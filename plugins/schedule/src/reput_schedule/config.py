"""Options of the plugin, and what the delay levels 1, 2, 3, … mean.

Source of the levels: RocketMQ ``ScheduleMessageService#parseDelayLevel`` and its option
``messageDelayLevel``: parts between single spaces, each a whole number and ``s``, ``m``, ``h`` or
``d``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final, Self

import attrs
from attrs.validators import in_

from reput.plugin import integer_between

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVEL_MAX: Final = 1024
"""Queues of the schedule topic that are read at most; records of a hostile log may name any."""

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"([0-9]{1,9})([smhd])")


@attrs.frozen
class DelayLevels:
    """Delays by level; immutable."""

    delays_ms: tuple[int, ...]
    """Delay of level 1, 2, …"""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the levels that a text in the form of RocketMQ's ``messageDelayLevel`` names.

        Raises:
            ValueError: a part is not a delay, or there are too many parts.
        """
        parts = text.split(" ")
        delays = []
        for place, part in enumerate(parts, start=1):
            found = _PART.fullmatch(part)
            if found is None:
                raise ValueError(
                    f"level {place} of {text!r} is {part!r}; a number and one of s, m, h, d "
                    "expected, parts with one space between them: '1s 30s 5m 2h'"
                )
            delays.append(int(found[1]) * _UNIT_MS[found[2]])
        if len(delays) > LEVEL_MAX:
            raise ValueError(f"{len(delays)} levels; at most {LEVEL_MAX} are possible")
        return cls(tuple(delays))

    @property
    def max_level(self) -> int:
        """The highest level; a message that asks for a higher level gets this one."""
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Return the delay of ``level``, which is 1 or more."""
        return self.delays_ms[min(level, self.max_level) - 1]


def _are_levels(config: object, attribute: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text of levels such as {DEFAULT_LEVELS!r}")
    DelayLevels.parse(value)


@attrs.frozen(kw_only=True)
class ScheduleConfig:
    """Options of the ``schedule`` plugin."""

    delay_levels: str = attrs.field(default=DEFAULT_LEVELS, validator=_are_levels)
    """Delays of the levels 1, 2, … (``messageDelayLevel``): numbers with ``s``, ``m``, ``h`` or
    ``d``, one space between them.

    Set it to a RocketMQ broker's levels when you take over the files or the producers of that
    broker.
    """
    deliver: str = attrs.field(default="auto", validator=in_(("auto", "always", "never")))
    """``"auto"``: deliver due messages, but not in a store that a RocketMQ broker has written,
    because that broker may still deliver them. ``"always"``: deliver also in such a store.
    ``"never"``: keep delayed messages, and deliver none.

    Choose ``"always"`` when the broker that wrote the store will not run again.
    """
    precision_ms: int = attrs.field(default=1_000, validator=integer_between(10, 10_000))
    """Precision of delivery times (``timerPrecisionMs``). RocketMQ can read files with a precision
    of 1,000 only.

    Lower it when messages must be delivered less than a second after their time.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "roll_window_slots": "a message is rolled every 172,800 slots, as RocketMQ does it",
        "timer_log_file_size": "existing files keep their size, and new stores get RocketMQ's",
        "timer_slot_limit": "no put is refused because many messages have the same time",
    }

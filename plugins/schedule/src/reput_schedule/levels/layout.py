"""`DelayLevels`: what the levels 1, 2, 3, … of delayed messages mean.

Source: RocketMQ ``ScheduleMessageService#parseDelayLevel`` and its option ``messageDelayLevel``:
parts between single spaces, each a whole number and ``s``, ``m``, ``h`` or ``d``.
"""

from __future__ import annotations

import re
from typing import Final, Self

import attrs

__all__ = [
    "DEFAULT_LEVELS",
    "LEVEL_MAX",
    "PROPERTY_LEVEL",
    "SCHEDULE_TOPIC",
    "DelayLevels",
    "parse_level",
]

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Topic in which messages with a level wait; the queue is the level less one."""
PROPERTY_LEVEL: Final = "DELAY"
DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVEL_MAX: Final = 1024
"""Queues of the topic that are looked at; a hostile log may name any."""

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"([0-9]{1,9})([smhd])")
_LEVEL: Final = re.compile(r"[+-]?[0-9]{1,10}")


@attrs.frozen
class DelayLevels:
    """Delays by level; immutable."""

    delays_ms: tuple[int, ...]
    """Of level 1, 2, …"""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Levels as RocketMQ's ``messageDelayLevel`` names them.

        Raises:
            ValueError: a part that is no delay, or too many of them.
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
        """The highest level; higher ones that messages name mean this one."""
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Delay of a level, which is 1 or more."""
        return self.delays_ms[min(level, self.max_level) - 1]


def parse_level(text: str) -> int | None:
    """The number that a ``DELAY`` property states; None where it states none of 32 bits."""
    if _LEVEL.fullmatch(text) is None:
        return None
    level = int(text)
    return level if -(1 << 31) <= level < 1 << 31 else None

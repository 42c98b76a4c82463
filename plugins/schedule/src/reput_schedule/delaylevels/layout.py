"""Names of the delay levels in a log: topic and property."""

from __future__ import annotations

import re
from typing import Final

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Topic in which messages with a level wait; the queue id is the level less one."""
PROPERTY_LEVEL: Final = "DELAY"

_LEVEL: Final = re.compile(r"[+-]?[0-9]{1,10}")


def parse_level(text: str) -> int | None:
    """Return the 32-bit number that a ``DELAY`` property states; None for any other text."""
    if _LEVEL.fullmatch(text) is None:
        return None
    level = int(text)
    return level if -(1 << 31) <= level < 1 << 31 else None

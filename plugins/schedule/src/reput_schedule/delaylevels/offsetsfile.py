"""``config/delayOffset.json``: which message of each delay level is delivered next.

Written as RocketMQ's newest release writes it, tabs, unquoted integer keys and all; every release
reads this form. One member is ours, and RocketMQ skips it: ``reputOffset``, a physical offset below
which the offsets count every delivered message of the log. RocketMQ drops the member when it writes
the file; it is then unknown which process delivered what.

    {
        "dataVersion":{
            "counter":2,
            "stateVersion":0,
            "timestamp":1700000000000
        },
        "offsetTable":{1:10,2:0,3:7
        },
        "reputOffset":1048576
    }

Source: RocketMQ ``ScheduleMessageService#encode`` and ``DelayOffsetSerializeWrapper``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from reput_schedule.config import LEVEL_MAX
from reput_tools.brokerfiles import BareKey, offset_of, offsets_of, table_of

DIRECTORY: Final = "config"
FILE_NAME: Final = "delayOffset.json"
_TABLE: Final = "offsetTable"
_END: Final = "reputOffset"
_LEVELS: Final = range(1, LEVEL_MAX + 1)


@attrs.frozen
class DelayOffsets:
    """The contents of the file."""

    offsets: Mapping[int, int] = attrs.field(factory=dict)
    """Queue offset of the next message to deliver, by level."""
    delivered_to: int | None = None
    """``reputOffset``; None when RocketMQ wrote the file."""


def fill_in(document: dict[str, Any], state: DelayOffsets) -> bool:
    """Change the file's document; return whether that changed anything."""
    before = dict(document)
    document[_TABLE] = {BareKey(level): state.offsets[level] for level in sorted(state.offsets)}
    document.pop(_END, None)
    if state.delivered_to is not None:
        document[_END] = state.delivered_to
    return document != before


def offsets_in(document: Mapping[str, Any]) -> DelayOffsets:
    """Return what a file of any release says, without levels that are out of range.

    Raises:
        ValueError: an offset is not a number that fits.
    """
    table = table_of(document, _TABLE)
    offsets = offsets_of(table, _TABLE, _LEVELS)
    if any(offset_of(value, _TABLE) < 0 for value in table.values()):
        raise ValueError(f"{_TABLE} has a negative offset")
    delivered_to = document.get(_END)
    if delivered_to is None:
        return DelayOffsets(offsets)
    if (end := offset_of(delivered_to, _END)) < 0:
        raise ValueError(f"{_END} is {end}, a physical offset expected")
    return DelayOffsets(offsets, end)

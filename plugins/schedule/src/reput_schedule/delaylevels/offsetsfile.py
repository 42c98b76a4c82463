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

from reput.errors import CorruptFileError
from reput.files import brokerjson
from reput_schedule.config import LEVEL_MAX

__all__ = ["BACKUP_NAME", "FILE_NAME", "DelayOffsets", "decode_offsets", "encode_offsets"]

DIRECTORY: Final = "config"
FILE_NAME: Final = "delayOffset.json"
BACKUP_NAME: Final = brokerjson.backup_of(FILE_NAME)

_SIZE_MAX: Final = 1 << 20
_OFFSET_MAX: Final = (1 << 63) - 1


@attrs.frozen
class DelayOffsets:
    """The contents of the file."""

    offsets: Mapping[int, int] = attrs.field(factory=dict)
    """Queue offset of the next message to deliver, by level."""
    delivered_to: int | None = None
    """``reputOffset``; None when RocketMQ wrote the file."""
    counter: int = 0
    """Of the data version: how often the file was written."""


def encode_offsets(state: DelayOffsets, timestamp: int) -> bytes:
    """Return the file's bytes; ``timestamp`` is the time of this change, ms."""
    table = {brokerjson.BareKey(level): offset for level, offset in sorted(state.offsets.items())}
    version = {"counter": state.counter, "stateVersion": 0, "timestamp": timestamp}
    document: dict[str, Any] = {"dataVersion": version, "offsetTable": table}
    if state.delivered_to is not None:
        document["reputOffset"] = state.delivered_to
    return brokerjson.encode(document).encode()


def decode_offsets(data: bytes, path: str) -> DelayOffsets:
    """Return what a file of any release says, without levels that are out of range.

    Raises:
        CorruptFileError: the bytes are not such a file, or an offset is not a number that fits.
    """
    if len(data) > _SIZE_MAX:
        raise CorruptFileError(path, _SIZE_MAX, f"{len(data)} bytes; a few hundred expected")
    document = _document(data, path)
    table = document.get("offsetTable", {})
    if not isinstance(table, dict):
        raise _corrupt(path, "offsetTable", table, "a table of offsets by level")
    offsets = {}
    for name, offset in table.items():
        if not (name.isascii() and name.isdigit()) or len(name) > 9:
            continue
        if not _is_offset(offset):
            raise _corrupt(path, f"offset of level {name}", offset, "a queue offset")
        if 1 <= int(name) <= LEVEL_MAX:
            offsets[int(name)] = offset
    delivered_to = document.get("reputOffset")
    if delivered_to is not None and not _is_offset(delivered_to):
        raise _corrupt(path, "reputOffset", delivered_to, "a physical offset")
    version = document.get("dataVersion")
    counter = version.get("counter") if isinstance(version, dict) else None
    return DelayOffsets(offsets, delivered_to, counter if isinstance(counter, int) else 0)


def _document(data: bytes, path: str) -> dict[str, Any]:
    try:
        document = brokerjson.decode(data)
    except ValueError as error:
        raise CorruptFileError(path, 0, f"no JSON as RocketMQ writes it: {error}") from None
    if not isinstance(document, dict):
        raise _corrupt(path, "the file", document, "a JSON object")
    return document


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _OFFSET_MAX


def _corrupt(path: str, what: str, found: object, expected: str) -> CorruptFileError:
    return CorruptFileError(path, 0, f"{what} is {str(found)[:100]!r}, {expected} expected")

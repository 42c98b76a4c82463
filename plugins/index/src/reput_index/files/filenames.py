"""Names of index files: a time in UTC, ``yyyyMMddHHmmssSSS``, read as a number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from reput_index.layout import NAME_DIGITS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999


def name_of_time(timestamp: int) -> int:
    """Return the name, as a number, of a file made for a message stored at ``timestamp``, ms."""
    time = _EPOCH + timedelta(milliseconds=min(max(timestamp, 0), _LAST_MS))
    return int(time.strftime("%Y%m%d%H%M%S")) * 1000 + time.microsecond // 1000


def file_name(number: int) -> str:
    """Return the file name of ``number``."""
    return f"{number:0{NAME_DIGITS}d}"


def is_file_name(name: str) -> bool:
    """Return whether a directory entry may be an index file."""
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()

"""The names in ``config/`` whose meaning reput knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reput.files import is_system_name
from reput_tools.brokerfiles import COPY_SUFFIX, offset_of
from reput_tools.brokerfiles.contents import TABLES

_KNOWN: Final = {*TABLES, "timercheck"}
_DATABASES: Final = frozenset(
    {"consumerOffsets", "metadata", "rdb", "subscriptionGroups", "topics"}
)
_OF_OBJECTS: Final = frozenset({"consumerOffset.json", "subscriptionGroup.json", "topics.json"})
"""Documents whose tables have an object in each row."""
_SUFFIXES: Final = (".bak", ".new", ".tmp")
"""Of a copy, and of a file that is being replaced."""


def is_known_setting(name: str) -> bool:
    """Whether reput or a broker uses a name in ``config/``, also as a copy of a file."""
    if is_system_name(name) or COPY_SUFFIX in name or name in _DATABASES:
        return True
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name in _KNOWN


def is_document(name: str) -> bool:
    """Whether a known name in ``config/`` is that of a JSON document, or of its backup."""
    return name.removesuffix(".bak") in TABLES


def wrong_rows(name: str, document: Mapping[str, Any]) -> str | None:
    """Return why the table of a document of that name cannot be used, or None.

    Raises:
        KeyError: no document has that name.
    """
    base = name.removesuffix(".bak")
    for table in TABLES[base]:
        rows = document.get(table) or {}
        if base == "delayOffset.json":
            rows = {table: rows}
        elif base not in _OF_OBJECTS:
            continue
        for key, row in rows.items():
            if not isinstance(row, dict):
                return f"{key!r} of {table!r} is not an object"
            if table == "offsetTable" and (wrong := _wrong_offset(row)) is not None:
                return f"offset {row[wrong]!r} of {wrong!r} under {key!r}"
    return None


def _wrong_offset(row: Mapping[str, Any]) -> str | None:
    """Return the first key of queue offsets, by queue or level, that has another value."""
    for number, value in row.items():
        try:
            offset_of(value, number)
            int(number)
        except ValueError:
            return number
    return None

"""The names in ``config/`` whose meaning reput knows, and the members of these documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput.files import is_system_name
from reput_tools.brokerfiles import COPY_SUFFIX, offset_of
from reput_tools.brokerfiles.loosevalues import same_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["expected_content", "is_document", "is_known_setting", "wrong_content", "wrong_rows"]

_TABLES: Final = {
    "consumerFilter.json": ("filterDataByTopic",),
    "consumerOffset.json": ("offsetTable",),
    "consumerOrderInfo.json": ("table",),
    "delayOffset.json": ("offsetTable",),
    "lmqConsumerOffset.json": ("offsetTable", "lmqOffsetTable"),
    "messageRequestMode.json": ("messageRequestModeMap",),
    "subscriptionGroup.json": ("subscriptionGroupTable", "forbiddenTable"),
    "timermetrics": ("timingCount",),
    "topicQueueMapping.json": ("topicQueueMappingInfoMap",),
    "topics.json": ("topicConfigTable",),
    "transactionMetrics": ("transactionCount",),
}
"""Documents of brokers, with the members that have their content; each has one of them, or nothing
but a version. Directories of RocksDB have rows in the table of brokers' files."""
_VERSION: Final = "dataVersion"
_KNOWN: Final = {*_TABLES, "timercheck"}
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
    return name.removesuffix(".bak") in _TABLES


def wrong_content(name: str, document: Mapping[str, Any]) -> str | None:
    """Return why a document cannot be the one of that name, or None: its members are of another.

    Members are compared as brokers do, which take another spelling; a document that has nothing
    but a version is an empty one of any name.
    """
    tables = _TABLES[name.removesuffix(".bak")]
    members = [each for each in document if not same_name(str(each), _VERSION)]
    found = [each for each in members if any(same_name(str(each), table) for table in tables)]
    if members and not found:
        other = next((file for file, its in _TABLES.items() if set(its) & set(members)), None)
        return f"the content of {other}" if other else f"members {', '.join(sorted(members)[:3])}"
    for each in found:
        if document[each] is not None and not isinstance(document[each], dict):
            return f"{each!r} is not a table"
    return None


def wrong_rows(name: str, document: Mapping[str, Any]) -> str | None:
    """Return why the table of a document of that name cannot be used, or None.

    Raises:
        KeyError: no document has that name.
    """
    base = name.removesuffix(".bak")
    for table in _TABLES[base]:
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


def expected_content(name: str) -> str:
    """Return what a document of that name has."""
    return "an object " + " or ".join(f'"{each}"' for each in _TABLES[name.removesuffix(".bak")])

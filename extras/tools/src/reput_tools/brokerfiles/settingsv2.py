"""Rows of the database in which brokers with ``configManagerVersion=v2`` keep all settings.

    key:  table prefix 1 (1 byte), table (2), record prefix (1), the rest by record prefix
          1: "data_version"
          2: of topics and groups: length (2), name
             of offsets: length (2), group, 0x01, length (2), topic, 0x01, queue id (4)
    value: of a data version: state machine version, timestamp, counter (8 each)
           of topics and groups: serialization 1 (1), JSON
           of offsets: queue offset (8)

Integers are big-endian. The documents that are made of them are those of the JSON files.

Source: RocketMQ ``broker.config.v2.ConfigHelper``, ``TopicConfigManagerV2``,
``SubscriptionGroupManagerV2``, ``ConsumerOffsetManagerV2``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from reput_tools.brokerfiles.documenttext import object_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX: Final = struct.Struct(">BHB")  # table prefix, table, record prefix
_TABLE_PREFIX: Final = 1
_DATA_VERSION, _DATA = 1, 2
_DATA_VERSION_REST: Final = b"data_version"
_DATA_VERSION_VALUE: Final = struct.Struct(">qqq")
_LENGTH: Final = struct.Struct(">H")
_QUEUE_ID: Final = struct.Struct(">i")
_QUEUE_OFFSET: Final = struct.Struct(">q")
_SEPARATOR: Final = b"\x01"
_JSON: Final = 1

_CONSUMER_OFFSETS, _PULL_OFFSETS, _TOPICS, _GROUPS = 1, 2, 3, 4
_TABLES: Final = {
    "topics.json": {_TOPICS: "topicConfigTable"},
    "subscriptionGroup.json": {_GROUPS: "subscriptionGroupTable"},
    "consumerOffset.json": {_CONSUMER_OFFSETS: "offsetTable", _PULL_OFFSETS: "pullOffsetTable"},
}
"""Tables of each file, with the names that they have there; the first has the data version."""
_KNOWN: Final = {table for tables in _TABLES.values() for table in tables}


def unknown_tables(rows: Mapping[bytes, bytes]) -> list[int]:
    """Return the tables whose rows are part of no file that is known here, ascending.

    Raises:
        ValueError: a row is of no table at all.
    """
    return sorted({_table_of(key) for key in rows} - _KNOWN)


def document_of_v2(rows: Mapping[bytes, bytes], file_name: str) -> dict[str, Any]:
    """Return what a JSON file of that name would say.

    Raises:
        ValueError: a row of its tables is not as it should be; the text has the row's key.
    """
    names = _TABLES[file_name]
    document: dict[str, Any] = {name: {} for name in names.values()}
    for key, value in rows.items():
        table = _table_of(key)
        if table not in names:
            continue
        try:
            if key[3] == _DATA_VERSION and key[4:] == _DATA_VERSION_REST:
                if table == next(iter(names)):
                    document["dataVersion"] = _data_version(value)
            elif key[3] != _DATA:
                raise ValueError("a row of an unknown kind")
            elif table in (_TOPICS, _GROUPS):
                name, rest = _name(key[4:])
                if rest:
                    raise ValueError("bytes after the name")
                document[names[table]][name] = _config(value)
            else:
                group, topic, queue_id = _queue(key[4:])
                offsets = document[names[table]].setdefault(f"{topic}@{group}", {})
                (offsets[str(queue_id)],) = _QUEUE_OFFSET.unpack(value)
        except (struct.error, ValueError) as error:
            raise ValueError(f"row {key!r}: {error}") from error
    return document


def _table_of(key: bytes) -> int:
    if len(key) < _PREFIX.size or key[0] != _TABLE_PREFIX:
        raise ValueError(f"row {key!r}: it is not a row of a table")
    table: int = _PREFIX.unpack_from(key)[1]
    return table


def _data_version(value: bytes) -> dict[str, int]:
    state, timestamp, counter = _DATA_VERSION_VALUE.unpack(value)
    return {"counter": counter, "stateVersion": state, "timestamp": timestamp}


def _name(data: bytes) -> tuple[str, bytes]:
    """Return a name that stands behind its length, and the bytes after it."""
    (size,) = _LENGTH.unpack_from(data)
    name = data[_LENGTH.size : _LENGTH.size + size]
    if len(name) < size:
        raise ValueError("the name is cut off")
    return name.decode(), data[_LENGTH.size + size :]


def _queue(data: bytes) -> tuple[str, str, int]:
    """Return group, topic and queue id of a row of offsets."""
    group, rest = _name(data)
    topic, end = _name(rest.removeprefix(_SEPARATOR))
    if rest[:1] != _SEPARATOR or end[:1] != _SEPARATOR:
        raise ValueError("a separator is missing")
    (queue_id,) = _QUEUE_ID.unpack(end[1:])
    return group, topic, queue_id


def _config(value: bytes) -> dict[str, Any]:
    if value[:1] != bytes([_JSON]):
        raise ValueError(f"the serialization {value[:1].hex() or 'of nothing'} is not JSON (01)")
    return object_of(value[1:])

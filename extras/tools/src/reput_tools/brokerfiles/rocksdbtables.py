"""Settings that a broker keeps in RocksDB, as the JSON files of a plain broker.

With ``storeType=defaultRocksDB``, and with ``configManagerVersion=v1`` and its option, a broker has
three databases: ``config/topics``, ``config/subscriptionGroups`` and ``config/consumerOffsets``.
The key of a row is a name, its value the JSON that the file has below this name.

Source: RocketMQ ``RocksDBConfigManager``, ``RocksDBConsumerOffsetManager``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.installhints import extra_needed
from reput_tools.brokerfiles.errors import RocksDBError

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["database_of", "file_name_of", "read_database", "settings_in"]

_MARK: Final = "CURRENT"
_ALL_SETTINGS: Final = {
    "rdb": "configManagerVersion=v2",
    "metadata": "useSingleRocksDBForAllConfigs",
}
"""Databases in which all settings are, and the option with which a broker has each."""


@attrs.frozen
class _Table:
    """A database, and where its rows are in a file."""

    file: str
    table: str
    value: str = ""
    """Member of a row that is the value in the file; empty for the whole row."""


_TABLES: Final = {
    "topics": _Table("topics.json", "topicConfigTable"),
    "subscriptionGroups": _Table("subscriptionGroup.json", "subscriptionGroupTable"),
    "consumerOffsets": _Table("consumerOffset.json", "offsetTable", "offsetTable"),
}


def settings_in(root: str, disk: Disk) -> list[str]:
    """Return the names of databases in ``config`` below ``root``."""
    directory = os.path.join(root, "config")
    names = [entry.name for entry in disk.list(directory) if entry.is_dir(follow_symlinks=False)]
    return sorted(each for each in names if disk.exists(os.path.join(directory, each, _MARK)))


def file_name_of(name: str) -> str | None:
    """Return the name of the file whose document a database has; None if it is of no known kind."""
    return _TABLES[name].file if name in _TABLES else None


def database_of(directory: str, file_name: str, disk: Disk) -> str | None:
    """Return the path of the database that has what a file of the broker's would have; or None.

    Args:
        directory: the store's ``config`` directory.
        file_name: the file's name.
        disk: the store's.
    """
    for name, table in _TABLES.items():
        if table.file == file_name:
            for each in (*_ALL_SETTINGS, name):
                path = os.path.join(directory, each)
                if disk.exists(os.path.join(path, _MARK)):
                    return path
    return None


def read_database(path: str, disk: Disk) -> dict[str, Any]:
    """Return the document that the rows of a database of `database_of` are.

    Raises:
        RocksDBError: it cannot be read, and why.
    """
    name = os.path.basename(path)
    if name not in _TABLES:
        option = _ALL_SETTINGS[name]
        reason = f"reput does not read {option}; ask the broker for groups and offsets"
        raise RocksDBError(path, reason)
    try:
        return _document(path, name, disk)
    except ModuleNotFoundError as error:
        text = extra_needed("settings in RocksDB", "rocksdict", "tools", "rocksdb")
        raise RocksDBError(path, text) from error


def _document(path: str, name: str, disk: Disk) -> dict[str, Any]:
    # Only here, as each document is looked for among the databases, and few have one.
    from reput_tools.brokerfiles.rocksdbrows import rows_of

    table = _TABLES[name]
    rows, version = rows_of(path, disk)
    value = {key: row.get(table.value, {}) if table.value else row for key, row in rows.items()}
    document: dict[str, Any] = {"dataVersion": version} if version else {}
    document[table.table] = value
    return document

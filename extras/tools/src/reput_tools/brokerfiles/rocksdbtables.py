"""Settings that a broker keeps in RocksDB, as the JSON files of a plain broker.

Brokers have three databases below ``config`` with ``storeType=defaultRocksDB``, and with
``configManagerVersion=v1`` and its option: ``topics``, ``subscriptionGroups`` and
``consumerOffsets``. With ``useSingleRocksDBForAllConfigs`` their tables are column families of one,
``metadata``. The key of a row is a name, its value the JSON that the file has below this name. With
``configManagerVersion=v2`` all is in ``rdb``; see `reput_tools.brokerfiles.settingsv2`.

Source: RocketMQ ``RocksDBConfigManager``, ``RocksDBTopicConfigManager``,
``RocksDBSubscriptionGroupManager``, ``RocksDBConsumerOffsetManager``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.installhints import extra_needed
from reput_tools.brokerfiles.errors import RocksDBError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.files import Disk

_MARK: Final = "CURRENT"
_V2: Final = "rdb"
_SINGLE: Final = "metadata"
_VERSION_KEY: Final = b"kvDataVersionKey"


@attrs.frozen
class _Table:
    """Rows of version 1, and where they are in a file."""

    database: str
    """Database of their own."""
    families: Mapping[str, str]
    """Name in the file of each of its column families."""
    version: str
    """Column family of the data version."""
    single: Mapping[str, str]
    """The same of families in the one database for all settings."""
    single_version: str
    value: str = ""
    """Member of a row that is the value in the file; empty for the whole row."""


_FORBIDDEN: Final = {"forbidden": "forbiddenTable"}
_TABLES: Final = {
    "topics.json": _Table(
        "topics",
        {"default": "topicConfigTable"},
        "kvDataVersion",
        {"topic": "topicConfigTable"},
        "topicVersion",
    ),
    "subscriptionGroup.json": _Table(
        "subscriptionGroups",
        {"default": "subscriptionGroupTable"},
        "kvDataVersion",
        {"subscriptionGroup": "subscriptionGroupTable"},
        "subscriptionGroupVersion",
    ),
    "consumerOffset.json": _Table(
        "consumerOffsets",
        {"default": "offsetTable"},
        "kvDataVersion",
        {"consumerOffset": "offsetTable"},
        "consumerOffsetVersion",
        "offsetTable",
    ),
}


def settings_in(root: str, disk: Disk) -> list[str]:
    """Return the names of databases in ``config`` below ``root``."""
    directory = os.path.join(root, "config")
    names = [entry.name for entry in disk.list(directory) if entry.is_dir(follow_symlinks=False)]
    return sorted(each for each in names if disk.exists(os.path.join(directory, each, _MARK)))


def file_names_of(name: str) -> list[str]:
    """Return the names of the files whose documents a database has; none if it is not known."""
    if name in (_V2, _SINGLE):
        return [*_TABLES]
    return [file_name for file_name, table in _TABLES.items() if table.database == name]


def databases_of(directory: str, file_name: str, disk: Disk) -> list[str]:
    """Return the paths of databases that have what a file of the broker's would have.

    Brokers read one of them, by their options; here it is the first one.

    Args:
        directory: the store's ``config`` directory.
        file_name: the file's name.
        disk: the store's.
    """
    if file_name not in _TABLES:
        return []
    names = (_V2, _SINGLE, _TABLES[file_name].database)
    paths = [os.path.join(directory, name) for name in names]
    return [path for path in paths if disk.exists(os.path.join(path, _MARK))]


def database_of(directory: str, file_name: str, disk: Disk) -> str | None:
    """Return the first one of `databases_of`; None without one."""
    return next(iter(databases_of(directory, file_name, disk)), None)


def takes_files_over(path: str) -> bool:
    """Whether a broker copies entries of a newer file to the database at ``path``."""
    return os.path.basename(path) != _V2


def read_database(path: str, file_name: str, disk: Disk) -> tuple[dict[str, Any], str]:
    """Return the document of a file that a database has, and a text about what else it has.

    Args:
        path: one of `databases_of`.
        file_name: the file's name.
        disk: the store's.

    Raises:
        RocksDBError: it cannot be read, and why.
    """
    try:
        if os.path.basename(path) == _V2:
            return _of_v2(path, file_name, disk)
        return _of_v1(path, file_name, disk), ""
    except ModuleNotFoundError as error:
        text = extra_needed("settings in RocksDB", "rocksdict", "tools", "rocksdb")
        raise RocksDBError(path, text) from error
    except ValueError as error:
        raise RocksDBError(path, f"its rows cannot be read: {error}") from error


def _of_v2(path: str, file_name: str, disk: Disk) -> tuple[dict[str, Any], str]:
    # Only here, as each document is looked for among the databases, and few have one.
    from reput_tools.brokerfiles.rocksdbrows import families_of
    from reput_tools.brokerfiles.settingsv2 import document_of_v2, unknown_tables

    rows = families_of(path, disk, ["default"])["default"]
    unknown = ", ".join(map(str, unknown_tables(rows)))
    others = f"its tables {unknown} are not shown, as reput does not know them" if unknown else ""
    return document_of_v2(rows, file_name), others


def _of_v1(path: str, file_name: str, disk: Disk) -> dict[str, Any]:
    from reput_tools.brokerfiles.documenttext import object_of
    from reput_tools.brokerfiles.rocksdbrows import families_of

    table = _TABLES[file_name]
    is_single = os.path.basename(path) == _SINGLE
    families = dict(table.single if is_single else table.families)
    version = table.single_version if is_single else table.version
    if file_name == "subscriptionGroup.json":
        families |= _FORBIDDEN
    found = families_of(path, disk, [*families, version])
    document: dict[str, Any] = {}
    data_version = found.get(version, {}).get(_VERSION_KEY)
    if data_version:
        document["dataVersion"] = object_of(data_version)
    for family, name in families.items():
        if family not in found:
            if name in _FORBIDDEN.values():
                continue
            raise ValueError(f"the column family {family!r} does not exist")
        rows = {key.decode(): object_of(value) for key, value in found[family].items()}
        if rows or name not in _FORBIDDEN.values():
            is_inner = table.value and name == table.value
            document[name] = {
                key: row.get(table.value, {}) if is_inner else row for key, row in rows.items()
            }
    return document

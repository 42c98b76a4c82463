"""Settings that a broker keeps in RocksDB, as the JSON files of a plain broker.

With ``storeType=defaultRocksDB``, and with ``configManagerVersion=v1`` and its option, a broker has
three databases: ``config/topics``, ``config/subscriptionGroups`` and ``config/consumerOffsets``.
The key of a row is a name, its value the JSON that the file has below this name. The package
``rocksdict`` reads them, of a copy, as it writes beside a database that it only reads.

Source: RocketMQ ``RocksDBConfigManager``, ``RocksDBConsumerOffsetManager``.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput.installhints import extra_needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.files import Disk

__all__ = ["RocksDBError", "database_of", "read_database", "read_settings", "settings_in"]

_MARK: Final = "CURRENT"
_ALL_SETTINGS: Final = "rdb"
"""The database of ``configManagerVersion=v2``, in which all settings are."""
_SIZE_MAX: Final = 256 << 20
"""Bytes of a file of a database."""
_VERSION_FAMILY: Final = "kvDataVersion"
_VERSION_KEY: Final = b"kvDataVersionKey"


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


@attrs.define(eq=False, slots=False)
class RocksDBError(ReputError):
    """Settings in RocksDB cannot be read here."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def settings_in(root: str, disk: Disk) -> list[str]:
    """Return the names of databases in ``config`` below ``root``."""
    directory = os.path.join(root, "config")
    names = [entry.name for entry in disk.list(directory) if entry.is_dir(follow_symlinks=False)]
    return sorted(each for each in names if disk.exists(os.path.join(directory, each, _MARK)))


def read_settings(root: str, disk: Disk) -> dict[str, bytes]:
    """Return the JSON files, by name in ``config``, that have the settings of databases there.

    Raises:
        RocksDBError: one is of a kind that is not known, or cannot be read.
        ModuleNotFoundError: ``rocksdict`` is not installed.
    """
    found: dict[str, bytes] = {}
    for name in settings_in(root, disk):
        path = os.path.join(root, "config", name)
        if name not in _TABLES:
            raise RocksDBError(path, "settings in RocksDB of a kind that reput does not read")
        document = _document(path, name, disk)
        found[_TABLES[name].file] = json.dumps(document, ensure_ascii=False, indent="\t").encode()
    return found


def database_of(directory: str, file_name: str, disk: Disk) -> str | None:
    """Return the path of the database that has what a file of the broker's would have; or None.

    Args:
        directory: the store's ``config`` directory.
        file_name: the file's name.
        disk: the store's.
    """
    for name, table in _TABLES.items():
        if table.file == file_name:
            for each in (name, _ALL_SETTINGS):
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
        reason = (
            "reput does not read configManagerVersion=v2; ask the broker for groups and offsets"
        )
        raise RocksDBError(path, reason)
    try:
        return _document(path, name, disk)
    except ModuleNotFoundError as error:
        text = extra_needed("settings in RocksDB", "rocksdict", "tools", "rocksdb")
        raise RocksDBError(path, text) from error


def _document(path: str, name: str, disk: Disk) -> dict[str, Any]:
    table = _TABLES[name]
    rows, version = _rows(path, disk)
    value = {key: row.get(table.value, {}) if table.value else row for key, row in rows.items()}
    document: dict[str, Any] = {"dataVersion": version} if version else {}
    document[table.table] = value
    return document


def _copy(path: str, disk: Disk, target: Path) -> None:
    """Copy a database, whose directory has files only."""
    target.mkdir()
    for entry in disk.list(path):
        if entry.is_file(follow_symlinks=False):
            data = disk.read_file(entry.path, _SIZE_MAX + 1)
            if len(data) > _SIZE_MAX:
                raise RocksDBError(entry.path, f"it has more than {_SIZE_MAX} bytes")
            (target / entry.name).write_bytes(data)


def _rows(path: str, disk: Disk) -> tuple[Mapping[str, dict[str, Any]], dict[str, Any]]:
    """Return the rows of a database, and its data version, empty without one."""
    # No annotation of it counts: where it is not installed, the code is checked, too.
    rocksdict: Any = importlib.import_module("rocksdict")
    with tempfile.TemporaryDirectory(prefix="reput-") as copied:
        target = os.path.join(copied, "db")
        _copy(path, disk, Path(target))
        try:
            families = rocksdict.Rdict.list_cf(target)
            database = rocksdict.Rdict(
                target,
                options=rocksdict.Options(raw_mode=True),
                column_families={each: rocksdict.Options(raw_mode=True) for each in families},
                access_type=rocksdict.AccessType.read_only(),
            )
            try:
                rows = {
                    key.decode(): json.loads(value)
                    for key, value in database.get_column_family("default").items()
                }
                version = None
                if _VERSION_FAMILY in families:
                    version = database.get_column_family(_VERSION_FAMILY).get(_VERSION_KEY)
                return rows, json.loads(version) if version else {}
            finally:
                database.close()
        except (ValueError, rocksdict.DbClosedError) as error:
            raise RocksDBError(path, f"its rows cannot be read: {error}") from error
        except Exception as error:
            if type(error) is not Exception:  # what rocksdict raises for all that RocksDB says
                raise
            raise RocksDBError(path, f"it cannot be read: {error}") from error

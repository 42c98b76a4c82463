"""Reads the rows of a database in RocksDB.

The package ``rocksdict`` reads them, of a copy, as it writes beside a database that it only reads.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reput_tools.brokerfiles.errors import RocksDBError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.files import Disk

__all__ = ["rows_of"]

_SIZE_MAX: Final = 256 << 20
"""Bytes of a file of a database."""
_VERSION_FAMILY: Final = "kvDataVersion"
_VERSION_KEY: Final = b"kvDataVersionKey"


def _copy(path: str, disk: Disk, target: Path) -> None:
    """Copy a database, whose directory has files only."""
    target.mkdir()
    for entry in disk.list(path):
        if entry.is_file(follow_symlinks=False):
            data = disk.read_file(entry.path, _SIZE_MAX + 1)
            if len(data) > _SIZE_MAX:
                raise RocksDBError(entry.path, f"it has more than {_SIZE_MAX} bytes")
            (target / entry.name).write_bytes(data)


def rows_of(path: str, disk: Disk) -> tuple[Mapping[str, dict[str, Any]], dict[str, Any]]:
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

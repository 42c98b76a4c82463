"""Reads the rows of a database in RocksDB.

The package ``rocksdict`` reads them, of a copy, as it writes beside a database that it only reads.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reput_tools.brokerfiles.errors import RocksDBError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.files import Disk

_SIZE_MAX: Final = 256 << 20
"""Bytes of the files of a database."""
_ROWS_SIZE_MAX: Final = 512 << 20
"""Bytes of keys and values, which a database may compress."""


def _names(path: str, disk: Disk) -> list[str]:
    entries = disk.list(path)
    return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))


def _copy(path: str, disk: Disk, target: Path) -> bool:
    """Copy a database, whose directory has files only; return whether the names are still the same.

    Raises:
        FileNotFoundError: a file was removed meanwhile.
    """
    target.mkdir()
    names = _names(path, disk)
    left = _SIZE_MAX
    for name in names:
        data = disk.read_file(os.path.join(path, name), left + 1)
        left -= len(data)
        if left < 0:
            raise RocksDBError(path, f"it has more than {_SIZE_MAX} bytes")
        (target / name).write_bytes(data)
    return _names(path, disk) == names


def _copy_of(path: str, disk: Disk, parent: Path) -> str:
    """Return a copy of a database, the second one if a broker has changed its files meanwhile."""
    first, second = parent / "first", parent / "second"
    with contextlib.suppress(FileNotFoundError):
        if _copy(path, disk, first):
            return os.fspath(first)
    # RocksDB notices a file that its manifest names and that was not copied. It does not notice a
    # log that was removed, so that is an error here.
    _copy(path, disk, second)
    return os.fspath(second)


def families_of(path: str, disk: Disk, names: Iterable[str]) -> dict[str, dict[bytes, bytes]]:
    """Return the rows of column families of a database, by key.

    Args:
        path: the database's directory.
        disk: the store's.
        names: of the families; one that the database does not have is left out.

    Raises:
        RocksDBError: they cannot be read.
        ModuleNotFoundError: ``rocksdict`` is not installed.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="reput-") as parent:
            return _families_of(path, disk, names, Path(parent))
    except OSError as error:
        raise RocksDBError(path, f"it cannot be copied: {error}") from error


def _families_of(
    path: str, disk: Disk, names: Iterable[str], parent: Path
) -> dict[str, dict[bytes, bytes]]:
    # No annotation of it counts: where it is not installed, the code is checked, too.
    rocksdict: Any = importlib.import_module("rocksdict")
    target = _copy_of(path, disk, parent)
    try:
        families = rocksdict.Rdict.list_cf(target)
        database = rocksdict.Rdict(
            target,
            options=rocksdict.Options(raw_mode=True),
            column_families={each: rocksdict.Options(raw_mode=True) for each in families},
            access_type=rocksdict.AccessType.read_only(),
        )
        try:
            left = _ROWS_SIZE_MAX
            found: dict[str, dict[bytes, bytes]] = {}
            for name in names:
                if name not in families:
                    continue
                rows = found[name] = {}
                for key, value in database.get_column_family(name).items():
                    left -= len(key) + len(value)
                    if left < 0:
                        raise RocksDBError(path, f"its rows have more than {_ROWS_SIZE_MAX} bytes")
                    rows[key] = value
            return found
        finally:
            database.close()
    except rocksdict.DbClosedError as error:
        raise RocksDBError(path, f"its rows cannot be read: {error}") from error
    except Exception as error:
        if type(error) is not Exception:  # what rocksdict raises for all that RocksDB says
            raise
        raise RocksDBError(path, f"it cannot be read: {error}") from error

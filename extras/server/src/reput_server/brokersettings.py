"""Refuses to serve a directory that only a broker can serve for writing."""

from __future__ import annotations

import os

from reput.files import Disk
from reput.storefiles import find_broker_files
from reput_server.errors import ServerError

__all__ = ["refuse_hidden_settings"]

_SETTINGS = "offsets of consumers cannot be written there"
_KINDS = {
    "dledger": "a server serves and replicates plain logs only",
    "rocksdb-settings": _SETTINGS,
    "rocksdb-tables": _SETTINGS,
}


def refuse_hidden_settings(path: str) -> None:
    """Raise if a broker keeps its settings in RocksDB, or its log by DLedger; changes nothing.

    A server could not keep settings there: the broker would go on with older ones.

    Args:
        path: a store's directory, which need not exist.

    Raises:
        ServerError: it names the files.
    """
    root = os.path.abspath(path)
    disk = Disk().at(root)
    try:
        names = disk.list_names(root)
        found = [each for each in find_broker_files(root, disk, names) if each.row.kind in _KINDS]
    except NotADirectoryError:
        return
    finally:
        disk.release()
    if found:
        text = (
            f"{root}: not served, and nothing was changed: found {found[0].path}: "
            f"{found[0].row.what}; {_KINDS[found[0].row.kind]}. "
            f"Instead: {found[0].row.step}; --read-only serves it"
        )
        raise ServerError(text)

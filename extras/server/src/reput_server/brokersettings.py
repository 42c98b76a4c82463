"""Refuses to serve a directory that only a broker can serve for writing."""

from __future__ import annotations

import os

from reput.files import Disk
from reput.storefiles import FoundFiles, find_broker_files
from reput_server.errors import ServerError

_SETTINGS = "offsets of consumers cannot be written there"
_LEDGER = "dledger"
_KINDS = {
    "rocksdb-settings": _SETTINGS,
    "rocksdb-tables": _SETTINGS,
}


def refuse_hidden_settings(path: str) -> None:
    """Raise if a broker keeps settings in RocksDB, or a log that is not written; change nothing.

    A server could not keep settings there: the broker would go on with older ones. To a log of
    DLedger it appends if `reput.open` does.

    Args:
        path: a store's directory, which need not exist.

    Raises:
        ServerError: it names the files.
    """
    root = os.path.abspath(path)
    disk = Disk().at(root)
    try:
        names = disk.list_names(root)
        found = [
            (each, reason)
            for each in find_broker_files(root, disk, names)
            if (reason := _reason(each, root, disk))
        ]
    except NotADirectoryError:
        return
    finally:
        disk.release()
    if found:
        first, reason = found[0]
        text = (
            f"{root}: not served, and nothing was changed: found {first.path}: "
            f"{first.row.what}; {reason}. Instead: {first.row.step}; --read-only serves it"
        )
        raise ServerError(text)


def _reason(found: FoundFiles, root: str, disk: Disk) -> str:
    """Return why files of a broker are in a server's way; empty if they are not."""
    if found.row.kind == _LEDGER:
        return found.why_refused(root, disk)
    return _KINDS.get(found.row.kind, "")

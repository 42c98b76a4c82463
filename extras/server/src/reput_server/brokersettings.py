"""Refuses to serve a directory whose topics, groups and offsets only a broker can read."""

from __future__ import annotations

import os

from reput.files import Disk
from reput.storefiles import find_broker_files
from reput_server.errors import ServerError

__all__ = ["refuse_hidden_settings"]

_KIND = "rocksdb-settings"


def refuse_hidden_settings(path: str) -> None:
    """Raise if a broker keeps its settings at ``path`` in RocksDB; changes nothing.

    A server would begin with no topics, groups and offsets, so consumers would start again.

    Args:
        path: a store's directory, which need not exist.

    Raises:
        ServerError: it names the files.
    """
    root = os.path.abspath(path)
    disk = Disk().at(root)
    try:
        names = disk.list_names(root)
        found = [each for each in find_broker_files(root, disk, names) if each.row.kind == _KIND]
    except NotADirectoryError:
        return
    finally:
        disk.release()
    if found:
        text = (
            f"{root}: not served, and nothing was changed: found {found[0].path}: "
            f"{found[0].row.what}; consumers would start again, as their offsets cannot be read. "
            f"Instead: {found[0].row.step}; --read-only serves the messages alone"
        )
        raise ServerError(text)

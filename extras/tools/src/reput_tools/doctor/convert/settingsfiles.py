"""Makes the JSON files that a plain store has in place of databases with settings."""

from __future__ import annotations

import importlib
import json
import os
from typing import TYPE_CHECKING

from reput.files import system_clock
from reput_tools.brokerfiles import BrokerDocument
from reput_tools.brokerfiles.errors import RocksDBError
from reput_tools.brokerfiles.rocksdbtables import file_names_of, settings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files import Disk


def settings_files(root: str, disk: Disk, warn: Callable[[str], None]) -> dict[str, bytes]:
    """Return the JSON files, by name in ``config``, that have the settings of databases there.

    Args:
        root: the store's directory.
        disk: the store's.
        warn: called with a text for each file beside a database that is newer.

    Raises:
        RocksDBError: a database is of a kind that is not known, or cannot be read.
        ModuleNotFoundError: ``rocksdict`` is not installed.
    """
    found: dict[str, bytes] = {}
    directory = os.path.join(root, "config")
    for name in settings_in(root, disk):
        file_names = file_names_of(name)
        if not file_names:
            reason = "settings in RocksDB of a kind that reput does not read"
            raise RocksDBError(os.path.join(directory, name), reason)
        importlib.import_module("rocksdict")
        for file_name in file_names:
            if file_name in found:
                continue  # another database has them, too
            file = BrokerDocument(directory, file_name, disk, system_clock, warn)
            document = file.read()
            if file.problem is not None:
                raise RocksDBError(file.problem.path, file.problem.reason)
            found[file_name] = json.dumps(document, ensure_ascii=False, indent="\t").encode()
    return found

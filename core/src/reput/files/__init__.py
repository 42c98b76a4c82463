"""Files of a store: paths, sizes, descriptors, maps, and how bytes and names get to disk.

This package does everything that touches the file system. It must not know what the bytes mean: no
message, no record, no log. `reput.files.brokerjson` is public, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput.files.making import make_aside as make_aside
    from reput.files.making import make_file as make_file
    from reput.files.mapped import MappedFileQueue as MappedFileQueue
    from reput.files.names import FILE_NAME_DIGITS as FILE_NAME_DIGITS
    from reput.files.names import OWN_DIRECTORY as OWN_DIRECTORY
    from reput.files.names import file_name as file_name
    from reput.files.names import is_file_name as is_file_name
    from reput.files.names import is_safe_name as is_safe_name
    from reput.files.pool import FilePool as FilePool
    from reput.files.pool import Handle as Handle
    from reput.files.pool import ReplacedError as ReplacedError
    from reput.files.readmap import MAPPED_MIN as MAPPED_MIN
    from reput.files.system.disk import Buffer as Buffer
    from reput.files.system.disk import Disk as Disk
    from reput.files.system.disk import system_clock as system_clock
    from reput.files.system.pieces import read_pieces as read_pieces
    from reput.files.system.tree import Entry as Entry
    from reput.files.unflushed import Unflushed as Unflushed
    from reput.locks import new_lock as new_lock

_HOMES = {
    "Buffer": "system.disk",
    "Disk": "system.disk",
    "Entry": "system.tree",
    "FILE_NAME_DIGITS": "names",
    "FilePool": "pool",
    "Handle": "pool",
    "MAPPED_MIN": "readmap",
    "MappedFileQueue": "mapped",
    "OWN_DIRECTORY": "names",
    "ReplacedError": "pool",
    "Unflushed": "unflushed",
    "file_name": "names",
    "is_file_name": "names",
    "is_safe_name": "names",
    "make_aside": "making",
    "make_file": "making",
    "new_lock": "reput.locks",
    "read_pieces": "system.pieces",
    "system_clock": "system.disk",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)

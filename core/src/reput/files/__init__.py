"""Files of a store: paths, sizes, descriptors, maps, and how bytes and names get to disk.

This package does everything that touches the file system. It must not know what the bytes mean: no
message, no record, no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput.files.dirtyfiles import DirtyFiles as DirtyFiles
    from reput.files.filenames import FILE_NAME_DIGITS as FILE_NAME_DIGITS
    from reput.files.filenames import OWN_DIRECTORY as OWN_DIRECTORY
    from reput.files.filenames import file_name as file_name
    from reput.files.filenames import is_file_name as is_file_name
    from reput.files.filenames import is_safe_name as is_safe_name
    from reput.files.filenames import is_system_name as is_system_name
    from reput.files.filepool import FilePool as FilePool
    from reput.files.filepool import Handle as Handle
    from reput.files.filepool import ReplacedError as ReplacedError
    from reput.files.mappedfilequeue import MappedFileQueue as MappedFileQueue
    from reput.files.preallocation import create_file as create_file
    from reput.files.preallocation import create_temporary_file as create_temporary_file
    from reput.files.readmap import MAPPED_MIN as MAPPED_MIN
    from reput.files.system.directorytree import Entry as Entry
    from reput.files.system.directorytree import is_read_only as is_read_only
    from reput.files.system.disk import Buffer as Buffer
    from reput.files.system.disk import Disk as Disk
    from reput.files.system.disk import system_clock as system_clock
    from reput.files.system.filewatch import FileWatch as FileWatch
    from reput.files.system.flushing import FlushFailedError as FlushFailedError
    from reput.files.system.flushing import is_disk_full as is_disk_full
    from reput.files.system.flushing import run_parallel as run_parallel
    from reput.files.system.vectoredread import read_pieces as read_pieces
    from reput.signalsafe import new_lock as new_lock
else:
    __getattr__, __dir__ = lazy_exports(__name__)

"""Gives the files of a closed store that grow their full sizes, as a broker needs them.

The manifest says that files grow until all of them are full and on disk. So a fill that was killed
or has failed leaves a store whose files grow, some of which are full already; a second one ends it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import is_file_name
from reput.log import LOG_SECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.files import Disk, Entry
    from reput_tools.offline.closedstore.lockedstore import ClosedStore

_TIME: Final = re.compile("[0-9]{17}")
"""Names of index files, which say when the file was created."""


def fill(closed: ClosedStore, sizes: Mapping[str, int]) -> bool:
    """Extend files without taking disk space; return whether they grew until now.

    Args:
        closed: the store, held to be written.
        sizes: full sizes of files, bytes, by the directory of the store that has them, also in
            directories below it.

    Raises:
        OSError: a file cannot be extended, or is not on disk; files still count as growing.
    """
    manifest, disk = closed.manifest, closed.disk
    if manifest is None or manifest.config.get(LOG_SECTION, {}).get("grows") is not True:
        return False
    for name, size in sizes.items():
        for entry in _files_below(os.path.join(closed.root, name), disk):
            _extend(entry.path, size, disk)
    log = {**manifest.config[LOG_SECTION], "grows": False}
    attrs.evolve(manifest, config={**manifest.config, LOG_SECTION: log}).save(closed.state_file)
    return True


def _files_below(directory: str, disk: Disk) -> Iterator[Entry]:
    for entry in disk.list(directory):
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path, disk)
        elif entry.is_file() and (is_file_name(entry.name) or _TIME.fullmatch(entry.name)):
            yield entry


def _extend(path: str, size: int, disk: Disk) -> None:
    descriptor = disk.open(path, write=True)
    try:
        if 0 < disk.size(descriptor) < size:
            disk.truncate(descriptor, size)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)

"""What the sums tell a repair: where records stood, where the log is damaged now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.files import is_file_name
from reput_integrity.checksumfiles import ChecksumFiles
from reput_integrity.layout import DIRECTORY, SUMS_NAME
from reput_tools.offline import RecordHints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.files import Disk

_LARGEST = (1 << 31) - 1  # bytes that a file of the log may have


def leads(root: str, disk: Disk) -> Iterator[RecordHints]:
    """Yield places of records, part by part of a file; see `reput_tools.offline.hookspecs`."""
    directory = os.path.join(root, DIRECTORY, SUMS_NAME)
    try:
        names = [entry.name for entry in disk.list(directory) if is_file_name(entry.name)]
    except OSError:
        return
    for name in names:
        try:
            for units in ChecksumFiles(directory, disk, _LARGEST).chunks(int(name)):
                if len(units):
                    yield RecordHints(units.start, units.size)
        except OSError:
            continue

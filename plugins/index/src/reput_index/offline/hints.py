"""Reads what index files say of the log, from files that may be damaged in any way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput_index.files.filenames import is_file_name
from reput_index.files.geometry import guess_geometry
from reput_index.files.header import Geometry, Header
from reput_index.layout import DIRECTORY, HEADER_SIZE, ITEM_DTYPE, ITEM_SIZE
from reput_tools.offline import RecordHints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.files import Disk

_CHUNK: Final = 1 << 17  # items


def leads(root: str, disk: Disk, usual: Geometry) -> Iterator[RecordHints]:
    """Yield the items of every index file below ``root``.

    Args:
        root: the store's directory.
        disk: file operations.
        usual: the geometry that files have unless their size says otherwise.
    """
    try:
        entries = disk.list(f"{root}/{DIRECTORY}")
    except OSError:
        return
    for entry in entries:
        if not is_file_name(entry.name):
            continue
        try:
            yield from _of_file(disk, entry.path, usual)
        except OSError:
            continue


def _of_file(disk: Disk, path: str, usual: Geometry) -> Iterator[RecordHints]:
    descriptor = disk.open(path)
    try:
        size = disk.size(descriptor)
        geometry = usual if size == usual.file_size else guess_geometry(disk, path)
        if geometry is None:
            return
        header = Header.decode(disk.read(descriptor, HEADER_SIZE, 0))
        for first in range(1, geometry.item_count, _CHUNK):
            count = min(_CHUNK, geometry.item_count - first)
            position = geometry.position_of_item(first)
            data = disk.read(descriptor, count * ITEM_SIZE, position)
            items = np.frombuffer(data[: len(data) // ITEM_SIZE * ITEM_SIZE], ITEM_DTYPE)
            # Not up to the number that the header states, which may be the damage.
            used = items[(items["key_hash"] != 0) | (items["physical_offset"] != 0)]
            if len(used) == 0:
                return
            yield RecordHints(
                used["physical_offset"].astype(np.int64),
                np.zeros(len(used), np.int64),
                key_hash=used["key_hash"].astype(np.int64),
                store_timestamp=header.begin_timestamp + used["seconds"].astype(np.int64) * 1000,
            )
    finally:
        disk.close(descriptor)

"""Tell what became of the files of a write that was cut short: still staged, in the log, or gone.

A missing name says nothing: the file may have been published, and retention or a restore may have
removed it since. So the intent says where each file was to begin in the log, and the checksum of
its last record there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import file_name
from reput.record import crc32
from reput_arrow.logwriter.publication.publicationtarget import log_directory
from reput_arrow.logwriter.stagingdirectories import path_of

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_arrow.logwriter.publication.journal import Intent
    from reput_arrow.logwriter.staging.writetasks import Segment

_MARK_SIZE: Final = 64 << 10
"""Bytes of a record that are enough to know it by: its places, its times and more stand first."""


@attrs.frozen
class FileFate:
    """Names of a write's files, by where they are."""

    staged: frozenset[str]
    published: frozenset[str]
    gone: tuple[str, ...]
    """Those that are nowhere."""

    @classmethod
    def of(cls, root: str, intent: Intent, disk: Disk) -> FileFate:
        """Look for the files of a write; the caller holds the store's lock."""
        there = {entry.name for entry in disk.list(path_of(root, intent.staging))}
        staged = frozenset(each.name for each in intent.segments if each.name in there)
        others = [each for each in intent.segments if each.name not in staged]
        kept = [int(entry.name) for entry in disk.list(log_directory(root)) if entry.name.isdigit()]
        first = min(kept, default=0)
        published = frozenset(
            each.name for each in others if _is_published(root, each, first, disk)
        )
        gone = tuple(each.name for each in others if each.name not in published)
        return cls(staged, published, gone)


def mark_of(path: str, segment: Segment, disk: Disk) -> int:
    """Return the CRC-32 of the last record of a file; of a large record, of its first 64 KiB."""
    descriptor = disk.open(path)
    try:
        size = min(segment.used_size - segment.last_position, _MARK_SIZE)
        return crc32(disk.read(descriptor, size, segment.last_position))
    finally:
        disk.close(descriptor)


def _is_published(root: str, segment: Segment, first: int, disk: Disk) -> bool:
    if segment.base_offset < first:
        # It was the oldest file of the log since, and was removed as such; -1 was never numbered.
        return segment.base_offset >= 0
    path = os.path.join(log_directory(root), file_name(segment.base_offset))
    return disk.exists(path) and mark_of(path, segment, disk) == segment.mark

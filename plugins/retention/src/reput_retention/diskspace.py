"""Measures how full the disks of a store are.

Source: RocketMQ ``UtilAll#getDiskPartitionSpaceUsedPercent``: used space as a part of used and
usable space, in whole percents, rounded up. Space that only the superuser may use counts as
neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.files import Disk


@attrs.frozen
class Space:
    """One file system on which a store has files."""

    path: str
    """A directory of the store on this file system."""
    used: int
    """Bytes in use, by any files."""
    available: int
    """Bytes that this process may still use."""
    holds_log: bool = True
    """Whether the log's files are on this file system, so that removing them makes room."""

    @property
    def percent(self) -> int:
        """Usage in whole percents, rounded up; 0 if the system cannot tell."""
        size = self.used + self.available
        return -(-self.used * 100 // size) if size > 0 else 0

    def excess(self, percent: int) -> int:
        """Return the bytes to be removed so that at most ``percent`` are in use."""
        return max(self.used - (self.used + self.available) * percent // 100, 0)


def percent_of(ratio: float) -> int:
    """Return a ratio of the configuration in whole percents."""
    return round(ratio * 100)


def spaces_of(disk: Disk, root: str, log_directory: str) -> tuple[Space, ...]:
    """Return the file systems on which a store has directories, that of the log first.

    Each directory of a store may be a mount point or, if links are followed, a link to another
    disk.
    """
    found: dict[int, Space] = {}
    follow = disk.follows_links
    beside = [entry.path for entry in disk.list(root) if entry.is_dir(follow_symlinks=follow)]
    for path in (log_directory, root, *beside):
        try:
            device, _ = disk.identity(path)
            if device not in found:
                used, available = disk.usage(path)
                found[device] = Space(path, used, available, not found)
        except FileNotFoundError:
            continue  # an empty store has no log yet
    return tuple(found.values())

"""`AbortFile`: says that a store is open for writing, and how it was left.

Source: RocketMQ ``DefaultMessageStore#createTempFile``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput.files.disk import Disk

__all__ = ["AbortFile"]

_LEFT_ON_PURPOSE: Final = b"closed by reput; queues not kept"


@attrs.frozen
class AbortFile:
    """Exists while a store is open for writing; found at opening, it tells of a crash."""

    path: str
    disk: Disk

    @property
    def present(self) -> bool:
        """Whether the last writer never closed the store."""
        return self.disk.exists(self.path)

    @property
    def left_on_purpose(self) -> bool:
        """Whether the last writer closed the store and left the file for RocketMQ to see."""
        return self.present and self.disk.read_file(self.path, 64) == _LEFT_ON_PURPOSE

    def create(self) -> None:
        """Say that the store is being written, and by whom."""
        self.disk.replace(self.path, str(os.getpid()).encode())

    def leave(self) -> None:
        """Say that the store is closed, but that its queues were not kept: RocketMQ should look."""
        self.disk.replace(self.path, _LEFT_ON_PURPOSE)

    def remove(self) -> None:
        """Say that everything is flushed and dispatched; only then."""
        self.disk.remove(self.path)
        self.disk.flush_directory(os.path.dirname(self.path))

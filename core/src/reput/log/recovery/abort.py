"""`AbortFile`: the file ``abort``, which exists while a store is written, or after a crash.

Source: RocketMQ ``DefaultMessageStore#createTempFile``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["AbortFile"]

_LEFT_ON_PURPOSE: Final = b"closed by reput; queues not kept"


@attrs.frozen
class AbortFile:
    """The file ``abort``: made when a writer opens the store, removed when it closes the store."""

    path: str
    disk: Disk

    @property
    def present(self) -> bool:
        """Whether the file exists: the store is being written, or was not (fully) closed."""
        return self.disk.exists(self.path)

    @property
    def left_on_purpose(self) -> bool:
        """Whether the last writer closed the store, but left the file for RocketMQ to see."""
        return self.present and self.disk.read_file(self.path, 64) == _LEFT_ON_PURPOSE

    def create(self) -> None:
        """Write the file with this process's id, as the store is being written."""
        self.disk.replace(self.path, str(os.getpid()).encode())

    def leave(self) -> None:
        """Note that the store is closed, but that RocketMQ must recover, as queues are missing."""
        self.disk.replace(self.path, _LEFT_ON_PURPOSE)

    def remove(self) -> None:
        """Remove the file durably; only after everything was flushed and dispatched."""
        self.disk.remove(self.path)
        self.disk.flush_directory(os.path.dirname(self.path))

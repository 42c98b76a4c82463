"""The note of where a log begins, ``<store>/reput/head``.

The files of a log do not say whether there were older ones. So a writer notes where the log begins
when it opens a store, and trimming notes where the log will begin before it removes a file. A log
that begins after the noted offset has lost files that nobody trimmed.

The note counts as long as reput was the last to write the store (`StoreLock.sign`): RocketMQ
removes old files, too, and leaves no note. The file has two slots, as progress files have, which
say the same; they are written in place, so that trimming can write them on a full disk.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from reput.files.names import OWN_DIRECTORY
from reput.log.damage import GONE, Loss
from reput.log.progress import Progress, ProgressFile

if TYPE_CHECKING:
    from typing import Self

    from reput.files.system.disk import Disk

__all__ = ["LogHead"]

_NAME = "head"


@attrs.define(eq=False)
class LogHead:
    """The note of one store."""

    file: ProgressFile

    @classmethod
    def of(cls, root: str, disk: Disk) -> Self:
        """Return the note of the store at ``root``."""
        return cls(ProgressFile(os.path.join(root, OWN_DIRECTORY, _NAME), disk))

    @property
    def path(self) -> str:
        """The file."""
        return self.file.path

    @property
    def noted(self) -> int | None:
        """Physical offset at which the log begins, or before it; None if that is not known."""
        place = self.file.load()
        return None if place is None else place.physical_offset

    @property
    def is_whole(self) -> bool:
        """Whether both slots can be read."""
        return len(self.file.load_all()) == 2

    def note(self, physical_offset: int) -> None:
        """Note that the log may begin at an offset; on disk, in both slots, when this returns."""
        slots = self.file.known()
        if len(slots) == 2 and slots[0].physical_offset == physical_offset:
            return
        for mark in (1, 0):  # a progress file does not write the same progress twice
            self.file.save(Progress(physical_offset, -1, mark))

    def loss(self, min_physical_offset: int) -> Loss | None:
        """Return what a log that begins at ``min_physical_offset`` has lost; None for nothing.

        For a store that reput was the last to write. Call it with an offset that was read before:
        trimming writes the note first, and then removes files.
        """
        noted = self.noted
        if noted is None or noted >= min_physical_offset:
            return None
        detail = "the first files of the log are gone, and nobody has trimmed them"
        return Loss(noted, min_physical_offset, GONE, detail)

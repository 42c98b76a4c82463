"""Dead letters, ``<store>/reput/dead-letters/<plugin>.jsonl``: messages that a plugin failed on.

One JSON object a line. The messages themselves stay in the log; a line says where, and with which
error the plugin failed. A line that a crash cut short is ignored.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import attrs

from reput.files.filenames import OWN_DIRECTORY
from reput.files.jsonfiles import object_of, structure_of

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.record.batch import DispatchBatch

_ERROR_SIZE = 2_000  # characters of an error's text that are kept
_READ_SIZE = 64 << 20


@attrs.frozen
class DeadLetter:
    """One message that a plugin failed on and that was skipped."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    error: str
    """Type and text of the plugin's exception."""
    timestamp: int
    """When it was skipped, ms."""


@attrs.define(eq=False, repr=False)
class DeadLetterFile:
    """The dead letters of one plugin."""

    path: str
    disk: Disk

    @classmethod
    def of(cls, root: str, plugin: str, disk: Disk) -> DeadLetterFile:
        """Return the file of a plugin's dead letters."""
        return cls(os.path.join(root, OWN_DIRECTORY, "dead-letters", f"{plugin}.jsonl"), disk)

    def add(self, batch: DispatchBatch, error: BaseException, timestamp: int) -> None:
        """Append the first message of ``batch``; on disk when this returns."""
        letter = DeadLetter(
            batch.start_offset,
            int(batch.size[0]),
            batch.topics[int(batch.topic_code[0])],
            int(batch.queue_id[0]),
            int(batch.queue_offset[0]),
            f"{type(error).__name__}: {error}"[:_ERROR_SIZE],
            timestamp,
        )
        directory = os.path.dirname(self.path)
        is_new = not self.disk.exists(self.path)
        if is_new:
            self.disk.make_directory(directory)
        descriptor = self.disk.open(self.path, create=True)
        try:
            end = self.disk.size(descriptor)
            line = json.dumps(attrs.asdict(letter), ensure_ascii=True).encode() + b"\n"
            if end and self.disk.read(descriptor, 1, end - 1) != b"\n":
                line = b"\n" + line  # a crash cut the line before short
            self.disk.write(descriptor, line, end)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)
        if is_new:
            self.disk.flush_directory(directory)
            self.disk.flush_directory(os.path.dirname(directory))

    def read(self) -> list[DeadLetter]:
        """Return all dead letters, oldest first; a message skipped twice is there twice."""
        data = self.disk.read_if_exists(self.path, _READ_SIZE)
        if data is None:
            return []
        found = []
        for line in data.splitlines():
            try:
                found.append(structure_of(DeadLetter, object_of(line)))
            except ValueError:
                continue
        return found

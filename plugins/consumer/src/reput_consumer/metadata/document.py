"""`BrokerDocument`: one JSON file of a broker's ``config`` directory, changed and never replaced.

The file may hold members that only a broker knows, or entries of other plugins. So a change reads
the file, edits the entries that it is about and writes all others back as they were.

Source: RocketMQ ``ConfigManager`` and ``DataVersion``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, Final

import attrs

from reput.files import Disk, brokerjson

logger = logging.getLogger(__name__)

__all__ = ["BrokerDocument", "section_of"]

DIRECTORY: Final = "config"
VERSION: Final = "dataVersion"


@attrs.define(eq=False)
class BrokerDocument:
    """A file of the broker's. Thread-safe, with all other plugins that use `brokerjson`."""

    directory: str
    """The store's ``config`` directory."""
    file_name: str
    disk: Disk
    clock: Callable[[], int]
    note_problem: Callable[[str], None] = lambda text: None
    """Called with a text for a file that exists and says nothing."""
    _written: tuple[bytes, dict[str, Any]] | None = attrs.field(init=False, default=None)
    """What the last change wrote, so that the next one need not decode it again."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.directory, self.file_name)

    def read(self) -> dict[str, Any]:
        """Return the file's document, or that of its backup; empty if neither holds one."""
        return brokerjson.read(self.disk, self.path, self._tell) or {}

    def change(self, edit: Callable[[dict[str, Any]], bool]) -> bool:
        """Edit the document, and replace the file durably if that has changed it.

        Args:
            edit: changes the document that it is given, and returns whether it did. The data
                version is counted up here.

        Returns:
            Whether the file was written.

        Raises:
            OSError: the file cannot be written; it is as it was.
        """
        with brokerjson.changing():
            before = self._bytes()
            document, is_sound = self._document_of(before)
            self._written = None  # until all is done
            if not edit(document):
                return False
            document[VERSION] = _next_version(document.get(VERSION), self.clock())
            # By name, as the broker's serializer writes members; tables keep their order.
            document = dict(sorted(document.items()))
            data = brokerjson.encode(document).encode()
            self.disk.make_directory(self.directory, durable=True)
            if is_sound:
                self.disk.replace(brokerjson.backup_of(self.path), before)
            self.disk.replace(self.path, data)
            self._written = data, document
            return True

    def _bytes(self) -> bytes:
        try:
            return self.disk.read_file(self.path)
        except FileNotFoundError:
            return b""

    def _document_of(self, data: bytes) -> tuple[dict[str, Any], bool]:
        """Return the document, and whether ``data`` holds it: if not, it is the backup's."""
        if self._written is not None and self._written[0] == data:
            return self._written[1], True
        try:
            document = brokerjson.decode(data)
        except ValueError:
            return self.read(), False
        return (document, True) if isinstance(document, dict) else (self.read(), False)

    def finish_replacing(self) -> None:
        """Finish or undo a change that a crash has interrupted; before the first `read`."""
        self.disk.finish_replacing(
            self.directory, self.file_name, brokerjson.backup_of(self.file_name)
        )

    def _tell(self, text: str) -> None:
        logger.warning("file of the broker's not read: %s", text)
        self.note_problem(text)


def section_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table ``name`` of a document, to read or to change; an empty one if it has none.

    What stands there but is no table is replaced by one, as a broker would fail to load it.
    """
    found = document.get(name)
    if not isinstance(found, dict):
        found = document[name] = {}
    return found


def _next_version(version: object, now: int) -> dict[str, int]:
    """Return the data version after one more change; ``stateVersion`` is skipped by 4.8."""
    found = version if isinstance(version, dict) else {}
    numbers = {
        name: value
        for name in ("counter", "stateVersion")
        if isinstance(value := found.get(name), int)
    }
    return {
        "counter": numbers.get("counter", 0) + 1,
        "stateVersion": numbers.get("stateVersion", 0),
        "timestamp": now,
    }

"""`StateNotes`: values that a plugin keeps in its store's state file."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from reput.errors import ReadOnlyStoreError
from reput.files.jsonfiles import object_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.log.statefile import StateFile

logger = logging.getLogger(__name__)

__all__ = ["StateNotes"]


class StateNotes:
    """Values that a plugin keeps in the journal of its store's state file.

    A value is a pure function of the log, or it is needed only for speed: it may be lost with the
    file.

    Args:
        plugin: the plugin's name.
        state: the store's state file; None to keep values in this object.
        writable: whether the store is; another process may be writing the file otherwise.
    """

    def __init__(
        self, plugin: str = "", state: StateFile | None = None, *, writable: bool = True
    ) -> None:
        self._prefix = f"{plugin}/"
        self._state = state
        self._writable = writable
        self._own: dict[str, bytes] = {}

    def read(self, name: str) -> bytes:
        """Return a value as this process knows it; empty if it was never noted."""
        if self._state is None:
            return self._own.get(name, b"")
        return self._state.value(self._prefix + name)

    def save(self, name: str, value: bytes, *, adds: bool = False) -> None:
        """Replace a value, or add to its end; on disk when this returns.

        Raises:
            ReadOnlyStoreError: the store was opened to read only.
            OSError: it cannot be written; the value is unchanged.
        """
        if not self._writable:
            reason = "it was opened to read only; look at `context.writable` before a note is saved"
            raise ReadOnlyStoreError("store", None, None, reason)
        if self._state is None:
            self._own[name] = self._own.get(name, b"") + value if adds else value
        else:
            self._state.note({self._prefix + name: value}, adds=adds)

    def read_object(self, name: str) -> dict[str, Any]:
        """Return a value that `save_object` has kept; empty without one, or if it is damaged."""
        try:
            return object_of(self.read(name) or b"{}")
        except ValueError as error:
            logger.warning("note ignored name=%s%s error=%s", self._prefix, name, error)
            return {}

    def save_object(self, name: str, facts: Mapping[str, Any]) -> None:
        """Replace a value by a JSON object; see `save`."""
        self.save(name, json.dumps(facts, separators=(",", ":")).encode())

"""Plugin records, ``<store>/reput/plugins/<plugin>.json``: a plugin's state and figures.

A record is written when a plugin's state changes and, for its figures, now and then. It makes a
suspension last, tells the next opening which bytes a failed flush leaves in doubt, and shows other
processes the state. ``<store>/reput/requests/<plugin>`` is for the other direction: another process
asks the writer to suspend or resume a plugin, and the writer removes the file when that is done.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput.dispatch.runtime.pluginstate import PluginFigures
from reput.files.filenames import OWN_DIRECTORY, is_safe_name
from reput.files.jsonfiles import object_of, structure_of
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["RESUME", "SUSPEND", "StoredPluginState", "StoredPluginStates"]

SUSPEND: Final = "suspend"
RESUME: Final = "resume"
_READ_SIZE = 1 << 20


@attrs.frozen(kw_only=True)
class StoredPluginState(PluginFigures):
    """Record of one plugin."""

    state: str = "running"
    asked: bool = False
    """Whether the plugin was suspended on request; then it stays suspended until it is resumed."""
    is_clean: bool = True
    """Whether the plugin was closed with everything flushed, or is still active."""
    cut_to: int | None = None
    """After a failed flush: progress up to which the plugin's files are valid; else None."""
    last_error: str | None = None
    timestamp: int = 0
    """When the record was written, ms."""
    dispatched_to: int = 0


@attrs.define(eq=False)
class StoredPluginStates:
    """The records and requests of one store."""

    root: str
    disk: Disk
    unreadable: Callable[[OSError], None] | None = None
    """Called if a file cannot be read, which then counts as missing; if None, it raises."""
    _saved: dict[str, StoredPluginState] = attrs.field(factory=dict)
    _lock: threading.RLock = attrs.field(factory=new_lock)

    def load(self, plugin: str) -> StoredPluginState:
        """Read a plugin's record; return one of default values if it is missing or damaged."""
        try:
            return self._read(plugin) or StoredPluginState()
        except OSError as error:
            if self.unreadable is None:
                raise
            self.unreadable(error)
            return StoredPluginState()

    def names(self) -> list[str]:
        """Return the names of plugins that have a record, sorted."""
        entries = self.disk.list(self._path("plugins"))
        found = (each.name.removesuffix(".json") for each in entries if each.name.endswith(".json"))
        return sorted(name for name in found if is_safe_name(name))

    def is_sound(self, plugin: str) -> bool:
        """Whether the existing record of a plugin can be read."""
        return self._read(plugin) is not None

    def path(self, plugin: str) -> str:
        """Return the path of a plugin's record."""
        return self._path("plugins", f"{plugin}.json")

    def _read(self, plugin: str) -> StoredPluginState | None:
        text = self.disk.read_if_exists(self.path(plugin), _READ_SIZE)
        try:
            record = structure_of(StoredPluginState, object_of(text or b""))
        except ValueError:
            return None
        return record if record.cut_to is None or record.cut_to >= 0 else None

    def save(self, plugin: str, record: StoredPluginState) -> None:
        """Replace a plugin's record durably, unless nothing but its time has changed.

        Raises:
            OSError: the record cannot be written.
        """
        with self._lock:
            if attrs.evolve(record, timestamp=0) == self._saved.get(plugin):
                return
            path = self.path(plugin)
            data = json.dumps(attrs.asdict(record), indent=2).encode() + b"\n"
            try:
                self.disk.replace(path, data)
            except FileNotFoundError:  # a store that RocketMQ made, or somebody has removed it
                self.disk.make_directory(os.path.dirname(path))
                self.disk.replace(path, data)
            self._saved[plugin] = attrs.evolve(record, timestamp=0)

    # ------------------------------------------------------------------ requests

    def ask(self, plugin: str, request: str) -> None:
        """Ask the process that writes the store to suspend or resume a plugin."""
        path = self._path("requests", plugin)
        self.disk.make_directory(os.path.dirname(path))
        self.disk.replace(path, request.encode())

    def is_asked(self, plugin: str) -> bool:
        """Whether there is a request for ``plugin`` that the writer has not followed yet."""
        return self.disk.exists(self._path("requests", plugin))

    def withdraw(self, plugin: str) -> bool:
        """Remove a request; False if it does not exist, as the writer has removed it."""
        try:
            self.disk.remove(self._path("requests", plugin))
        except FileNotFoundError:
            return False
        return True

    def requests(self) -> list[tuple[str, str]]:
        """Return plugins and their requests; the writer calls `withdraw` after each."""
        taken = []
        for entry in self.disk.list(os.path.join(self.root, OWN_DIRECTORY, "requests")):
            if entry.name.endswith(".new") or not is_safe_name(entry.name):
                continue  # another process is writing it
            try:
                request = self.disk.read_file(entry.path, 64).decode("ascii", "replace").strip()
            except FileNotFoundError:
                continue
            taken.append((entry.name, request))
        return taken

    def _path(self, *names: str) -> str:
        return os.path.join(self.root, OWN_DIRECTORY, *names)

"""Plugin records, in the state file: a plugin's state and figures, as a JSON object.

A record is written when a plugin's state changes and, for its figures, now and then. It makes a
suspension last, tells the next opening which bytes a failed flush leaves in doubt, and shows other
processes the state. ``<store>/reput/requests/<plugin>`` is for the other direction: another process
asks the writer to suspend or resume a plugin, and the writer removes the file when that is done.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.dispatch.runtime.pluginstate import PluginFigures
from reput.files.filenames import OWN_DIRECTORY, is_safe_name
from reput.files.jsonfiles import object_of, structure_of
from reput.log.statefile import StateFile
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

SUSPEND: Final = "suspend"
RESUME: Final = "resume"
_SUFFIX: Final = "/state"  # behind a plugin's name, which has no slash
_ERROR_SIZE_MAX: Final = 2_000  # characters


def _shortened(text: str | None) -> str | None:
    return None if text is None else text[:_ERROR_SIZE_MAX]


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
    last_error: str | None = attrs.field(default=None, converter=_shortened)
    timestamp: int = 0
    """When the record was written, ms."""
    dispatched_to: int = 0


@attrs.define(eq=False, repr=False)
class StoredPluginStates:
    """The records and requests of one store."""

    root: str
    disk: Disk
    state: StateFile
    """Has the records."""
    _saved: dict[str, StoredPluginState] = attrs.field(factory=dict)
    _lock: threading.RLock = attrs.field(factory=new_lock)

    @classmethod
    def of(cls, root: str, disk: Disk) -> StoredPluginStates:
        """Return the records and requests of the store in ``root``."""
        return cls(root, disk, StateFile.of(root, disk))

    def load(self, plugin: str) -> StoredPluginState:
        """Read a plugin's record; return one of default values if it is missing or damaged."""
        self.state.load()
        return self.known(plugin)

    def known(self, plugin: str) -> StoredPluginState:
        """Return the same, as the state file was read last."""
        for slot in self.state.known[:1]:
            entry = slot.get(plugin + _SUFFIX)
            try:
                record = structure_of(StoredPluginState, object_of(entry.value if entry else b""))
            except ValueError:
                break
            if record.cut_to is None or record.cut_to >= 0:
                return record
        # Nobody knows what a damaged file has said.
        return StoredPluginState(is_clean=not self.state.is_damaged)

    def names(self) -> list[str]:
        """Return the names of plugins that have a record, sorted."""
        found = (name for slot in self.state.load()[:1] for name in slot)
        names = (name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))
        return sorted(name for name in names if is_safe_name(name))

    def save(self, plugin: str, record: StoredPluginState) -> None:
        """Replace a plugin's record durably, unless nothing but its time has changed.

        Raises:
            OSError: the record cannot be written.
        """
        with self._lock:
            timeless = attrs.evolve(record, timestamp=0)
            if timeless != self._saved.get(plugin):
                self.state.save(self.entries({plugin: record}))
                self._saved[plugin] = timeless

    def forget(self, plugin: str) -> None:
        """Remove a plugin's record durably."""
        self.state.save_in_both({}, plugin + _SUFFIX)

    def entries(self, records: Mapping[str, StoredPluginState]) -> dict[str, bytes]:
        """Return the entries of the state file that have records, by plugin."""
        return {
            name + _SUFFIX: json.dumps(attrs.asdict(record)).encode()
            for name, record in records.items()
        }

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

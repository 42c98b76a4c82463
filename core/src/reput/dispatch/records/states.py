"""``<store>/reput/plugins/<plugin>.json``: how a plugin was left, and how it is doing.

Written when a plugin's state changes and, for its figures, now and then. It makes a suspension
last, tells the next opening what a failed flush leaves in doubt, and shows the state of a running
store to other processes. ``<store>/reput/requests/<plugin>`` goes the other way: another process
asks the writer to suspend or resume a plugin, and the writer takes the file away when it has.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.dispatch.phase import PluginFigures
from reput.files.names import OWN_DIRECTORY, is_safe_name
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.files.disk import Disk

__all__ = ["RESUME", "SUSPEND", "PluginRecord", "PluginRecords"]

SUSPEND: Final = "suspend"
RESUME: Final = "resume"
_READ_SIZE = 1 << 20
_SUFFIX = ".json"


@attrs.frozen(kw_only=True)
class PluginRecord(PluginFigures):
    """What is remembered of one plugin."""

    state: str = "running"
    asked: bool = False
    """Whether it was suspended on request; then it stays so until it is resumed."""
    is_clean: bool = True
    """Whether it was closed with everything flushed, or never failed."""
    cut_to: int | None = None
    """After a failed flush: the plugin's files are what was written only up to this progress."""
    last_error: str | None = None
    timestamp: int = 0
    """When this was written, ms."""
    dispatched_to: int = 0


@attrs.define(eq=False)
class PluginRecords:
    """The records and requests of one store."""

    root: str
    disk: Disk
    unreadable: Callable[[OSError], None] | None = None
    """Told of a file that cannot be read, which then counts as none; None: that is an error."""
    _saved: dict[str, PluginRecord] = attrs.field(factory=dict)
    _lock: threading.RLock = attrs.field(factory=new_lock)

    def load(self, plugin: str) -> PluginRecord:
        """What is remembered of a plugin; nothing special where nothing readable is."""
        try:
            if not self.disk.exists(self.path(plugin)):
                return PluginRecord()
            return self._read(plugin) or PluginRecord()
        except OSError as error:
            if self.unreadable is None:
                raise
            self.unreadable(error)
            return PluginRecord()

    def names(self) -> list[str]:
        """Plugins of which there is a record, sorted."""
        entries = self.disk.list(self._path("plugins"))
        found = (each.name.removesuffix(_SUFFIX) for each in entries if each.name.endswith(_SUFFIX))
        return sorted(name for name in found if is_safe_name(name))

    def is_sound(self, plugin: str) -> bool:
        """Whether the record of a plugin, which is there, says anything."""
        return self._read(plugin) is not None

    def path(self, plugin: str) -> str:
        """Where a plugin's record is."""
        return self._path("plugins", f"{plugin}{_SUFFIX}")

    def _read(self, plugin: str) -> PluginRecord | None:
        try:
            data = json.loads(self.disk.read_file(self.path(plugin), _READ_SIZE))
            # A later release may have noted more.
            known = {field.name for field in attrs.fields(PluginRecord)}
            record = PluginRecord(**{name: data[name] for name in data if name in known})
        except (ValueError, TypeError, RecursionError):
            return None
        return record if _is_sound(record) else None

    def save(self, plugin: str, record: PluginRecord) -> None:
        """Replace it, at once and durably; nothing is written where nothing changed but the time.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if attrs.evolve(record, timestamp=0) == self._saved.get(plugin):
                return
            path = self.path(plugin)
            self.disk.make_directory(os.path.dirname(path))
            self.disk.replace(path, json.dumps(attrs.asdict(record), indent=2).encode() + b"\n")
            self._saved[plugin] = attrs.evolve(record, timestamp=0)

    def forget(self, plugin: str) -> None:
        """Remember nothing of a plugin any more."""
        with self._lock:
            self._saved.pop(plugin, None)
            path = self.path(plugin)
            if self.disk.exists(path):
                self.disk.remove(path)
                self.disk.flush_directory(os.path.dirname(path))

    # ------------------------------------------------------------------ requests

    def ask(self, plugin: str, request: str) -> None:
        """Ask the process that writes the store to suspend or resume a plugin."""
        path = self._path("requests", plugin)
        self.disk.make_directory(os.path.dirname(path))
        self.disk.replace(path, request.encode())

    def is_asked(self, plugin: str) -> bool:
        """Whether a request waits to be taken."""
        return self.disk.exists(self._path("requests", plugin))

    def withdraw(self, plugin: str) -> bool:
        """Take a request back; False where the writer has taken it."""
        try:
            self.disk.remove(self._path("requests", plugin))
        except FileNotFoundError:
            return False
        return True

    def requests(self) -> list[tuple[str, str]]:
        """Plugins and what is asked of them; call `withdraw` when it is done."""
        taken = []
        for entry in self.disk.list(os.path.join(self.root, OWN_DIRECTORY, "requests")):
            if entry.name.endswith(".new") or not is_safe_name(entry.name):
                continue  # somebody is writing it
            try:
                request = self.disk.read_file(entry.path, 64).decode("ascii", "replace").strip()
            except FileNotFoundError:
                continue
            taken.append((entry.name, request))
        return taken

    def _path(self, *names: str) -> str:
        return os.path.join(self.root, OWN_DIRECTORY, *names)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "state": (str,),
    "asked": (bool,),
    "is_clean": (bool,),
    "cut_to": (int, type(None)),
    "last_error": (str, type(None)),
    "timestamp": (int,),
    "dispatched_to": (int,),
    "batch_count": (int,),
    "message_count": (int,),
    "mean_batch_ms": (int, float),
    "max_batch_ms": (int, float),
    "skipped_count": (int,),
}


def _is_sound(record: PluginRecord) -> bool:
    """Whether every value is of the type that it should be; the file may hold anything."""
    values: dict[str, Any] = attrs.asdict(record)
    sound = all(isinstance(values[name], types) for name, types in _TYPES.items())
    return sound and (record.cut_to is None or record.cut_to >= 0)

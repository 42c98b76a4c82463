"""The files beside a log that are derived from it, and how far they are complete."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError
from reput.files import FilePool
from reput.log import ProgressEntry, StateFile
from reput.plugin import StateNotes
from reput.storefiles import Manifest, StoredPluginStates
from reput_arrow.logs.arrowdisk import LocalDisk, disk_of
from reput_arrow.logs.logplace import COMMIT_LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.files import Disk
    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.logs.openlog import OpenLog
    from reput_consumequeue.queueextents import QueueExtent

_FILES_OPEN: Final = 16


class DoubtError(Exception):
    """Derived files are missing, incomplete or wrong: the log is to be read instead."""


@attrs.frozen(eq=False)
class DerivedFiles:
    """What stands beside one log in its store."""

    root: str
    """The store's directory on `disk`."""
    disk: Disk
    pool: FilePool

    def names(self, *path: str) -> list[str]:
        """Return the names in a directory below the root, sorted; none if it does not exist."""
        directory = os.path.join(self.root, *path)
        if not self.disk.exists(directory):
            return []
        return [entry.name for entry in self.disk.list(directory)]

    def files(self, *path: str) -> list[tuple[str, str, int]]:
        """Return name, path and bytes of the files in a directory below the root, by name."""
        directory = os.path.join(self.root, *path)
        if not self.disk.exists(directory):
            return []
        entries = [entry for entry in self.disk.list(directory) if entry.is_file()]
        found = ((each.name, f"{directory}/{each.name}", each.stat().st_size) for each in entries)
        return sorted(found)

    def vouched(self, plugin: str, log: OpenLog) -> int | None:
        """Return the physical offset below which a plugin's files were complete and on disk.

        None for a broker's store, and where the log was cut and written again since.
        """
        if self.skipped(plugin):
            return None
        return ProgressEntry(self.state, plugin).believable(log)

    @property
    def state(self) -> StateFile:
        """The store's state file, not read yet."""
        return StateFile.of(self.root, self.disk)

    def reaches(self) -> Mapping[tuple[str, int], QueueExtent]:
        """Return the noted queues, and how far each went at that time.

        Raises:
            DoubtError: the plugin that keeps queues is not installed.
        """
        try:
            from reput_consumequeue.queueextents import load_extents
        except ImportError:
            raise DoubtError("reput-consumequeue is not installed") from None
        return load_extents(StateNotes("consumequeue", self.state)).extents()

    def options(self, plugin: str) -> dict[str, Any]:
        """Return the options that the store's manifest holds for a plugin."""
        try:
            manifest = Manifest.of(self.state)
        except CorruptFileError:
            return {}
        return {} if manifest is None else dict(manifest.config.get(plugin, {}))

    def skipped(self, plugin: str) -> bool:
        """Whether a plugin left out messages that it could not take, as the user asked."""
        states = StoredPluginStates.of(self.root, self.disk)
        return states.load(plugin).skipped_count > 0


def derived_files(place: LogPlace) -> DerivedFiles | None:
    """Return what stands beside a log; None where the log is not the ``commitlog/`` of a store.

    Close the pool of what is returned.
    """
    if place.kind != COMMIT_LOG or place.only_base is not None:
        return None
    disk, directory = disk_of(place.directory)
    root, name = os.path.split(directory)
    if name != "commitlog":
        return None
    if isinstance(disk, LocalDisk):
        disk = disk.at(root)  # names of topics come from users, and links from anywhere
    return DerivedFiles(root, disk, FilePool(disk, _FILES_OPEN))

"""`inspect_store`: reads the small files of a store, without a lock and without opening it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError, PluginError
from reput.files import OWN_DIRECTORY, Disk, is_file_name, is_safe_name
from reput.log import (
    CheckedNote,
    Checkpoint,
    LogStateFile,
    Progress,
    ProgressEntry,
    StateFile,
    ledger_in,
)
from reput.plugin import PluginSet, installed
from reput.storefiles import (
    AbortFile,
    DeadLetterFile,
    Manifest,
    StoredPluginStates,
    StoreLock,
    decide,
    path_argument,
)

if TYPE_CHECKING:
    from reput.files import Entry
    from reput.log import CheckedRanges, Progress, Writer
    from reput.plugin import InstalledPlugin, Plugin

    Sections = Mapping[str, Mapping[str, Any]]

_RECOVERED_FILES: Final = 10
"""Log files, the newest, of which a broker 5.4 or later derives the queues."""
# Made by RocketMQ 5 and by no release before it.
_FIVE = ("abort.bak", "batchconsumequeue", "compaction", "timerlog", "timerwheel")
_FIVE_FOUR = "rocksdbstore"


def inspect_store(
    path: str | os.PathLike[str], *, disk: Disk | None = None, follow_links: bool = False
) -> Traces:
    """Return the traces of a store, or of a directory that may be one; changes nothing.

    Args:
        path: the directory, which need not exist.
        disk: file operations; the system's when left out.
        follow_links: as for `reput.open`.
    """
    root = os.path.abspath(path_argument("path", path))
    return Traces(root, (disk or Disk()).at(root, follow_links=follow_links))


@attrs.define(eq=False)
class Traces:
    """What the small files of a store say.

    Each property reads its file again, as another process may be writing the store.
    """

    root: str
    """The store's directory, absolute."""
    disk: Disk
    """Bound to `root`."""

    # ------------------------------------------------------------------ how it was left

    @property
    def written_by(self) -> str | None:
        """Who wrote it last, as far as files show it; None without a store.

        ``"reput"``, ``"rocketmq"``, ``"rocketmq 5"``, or ``"rocketmq 5.4"`` for that and later.
        """
        names = {entry.name for entry in self.disk.list(self.root)}
        if not self.has_log:
            return None
        # The manifest in it may be missing, or not readable.
        if OWN_DIRECTORY in names and not self.is_only_rebuilt:
            return "reput"
        if _FIVE_FOUR in names:
            return "rocketmq 5.4"
        found = self.checkpoint
        later = found is not None and (found.replica_offset or found.confirm_offset)
        return "rocketmq 5" if later or not names.isdisjoint(_FIVE) else "rocketmq"

    @property
    def is_only_rebuilt(self) -> bool:
        """Whether reput rebuilt files of a broker's directory, and never opened it to write."""
        try:
            if self.has_abort or self.reput_wrote_last:
                return False
            return self.closed is None and self.manifest is None
        except (OSError, CorruptFileError):  # what cannot be read is in a directory of reput
            return False

    @property
    def has_log(self) -> bool:
        """Whether the directory holds a log, as a store does, or one of DLedger."""
        if self.disk.exists(self._path("commitlog")):
            return True
        names = [entry.name for entry in self.disk.list(self.root)]
        return ledger_in(self.root, self.disk, names) is not None

    @property
    def is_open(self) -> bool:
        """Whether a process, which may be this one, holds the store's lock."""
        return self._lock().is_taken()

    @property
    def writer(self) -> Writer:
        """Which program has the store open to write, as its lock says."""
        return self._lock().writer()

    @property
    def has_abort(self) -> bool:
        """Whether the file ``abort`` exists: a process writes, or did not close the store."""
        return self._abort().present

    @property
    def was_closed(self) -> bool:
        """Whether the last writer closed the store; False while one has it open."""
        return not self.has_abort or self.closed is not None

    @property
    def closed_at(self) -> int | None:
        """Where the log ended when it was closed; None if it was not, or not by reput."""
        place = self.closed
        return None if place is None else place.physical_offset

    @property
    def closed(self) -> Progress | None:
        """End and last record of the log as it was closed; None if it was not, or not by reput."""
        return LogStateFile.of(self.root, self.disk).closed()

    @property
    def reput_wrote_last(self) -> bool:
        """Whether no other program has opened the store for writing since reput did.

        False also if this is not known: the store has no file ``lock``, as a copy may have none.
        """
        return self._lock().is_signed

    @property
    def unqueued_files(self) -> int:
        """The number of log files of a store that was closed without queues; 0 up to ten.

        Brokers since 5.4 derive the queues only of the last ten.
        """
        try:
            has_queues = self.disk.exists(self._path("consumequeue"))
            if has_queues or not self.has_abort or not self.was_closed:
                return 0
            names = self.disk.list_names(self._path("commitlog"))
        except OSError:
            return 0
        count = sum(map(is_file_name, names))
        return count if count > _RECOVERED_FILES else 0

    @property
    def checked_ranges(self) -> CheckedRanges:
        """Ranges of the log in which each record has a checksum of its own (`record_crc`)."""
        return CheckedNote(self.state_file).load(reput_wrote_last=self.reput_wrote_last)

    @property
    def writer_pid(self) -> int | None:
        """The process that has the store open to write, as its lock or else ``abort`` names it.

        ``abort`` may be that of a process that was killed: it counts if such a process is running.
        """
        holder = self._lock().holder()
        if holder is not None:
            return holder
        try:
            pid = int(self.disk.read_file(self._path("abort"), 32))
        except (ValueError, OSError):
            return None  # RocketMQ 4 writes no number
        try:
            os.kill(pid, 0)
        except PermissionError:
            pass  # it is running, as another user
        except (OSError, OverflowError):
            return None
        return pid if pid > 0 else None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """RocketMQ's checkpoint; None if it cannot be read."""
        path = self._path("checkpoint")
        with contextlib.suppress(OSError):  # `Store.problems` says why
            if self.disk.exists(path):
                return Checkpoint.load(path, self.disk)
        return None

    def sizes(self) -> dict[str, int]:
        """Return the bytes that each file or directory of the store takes on disk, by name."""
        entries = self.disk.list(self.root)
        return {entry.name: size for entry in entries if (size := _size(entry, self.disk))}

    # ------------------------------------------------------------------ its plugins

    @property
    def manifest(self) -> Manifest | None:
        """Plugins and options of the last writer; None if reput has never written the store.

        Raises:
            CorruptFileError: the state file is damaged.
        """
        return Manifest.of(self.state_file)

    def sections(self, config: Sections | None = None) -> Sections:
        """Return the store's options by section, with those of ``config`` on top."""
        return self._decided(config, installed())[1]

    def plugins(self, config: Sections | None = None) -> PluginSet:
        """Return the plugins that the next writer would use, without opening them.

        Raises:
            PluginError: a plugin is missing or broken.
            ConfigError: an unknown section or option, or a wrong value.
        """
        offered = installed()
        return PluginSet(*self._decided(config, offered), offered)

    def _decided(
        self, config: Sections | None, offered: list[InstalledPlugin]
    ) -> tuple[list[str | Plugin], Sections]:
        return decide(self.manifest, None, config or {}, frozenset(), False, offered)

    @property
    def state_file(self) -> StateFile:
        """The state file, not read yet."""
        return StateFile.of(self.root, self.disk)

    def places(self) -> list[tuple[str, Progress]]:
        """Return the progress of log and plugins in the newest slot of the state file, by name."""
        entries = self.state_file.load()[:1]
        found = ((name, Progress.of(each.value)) for slot in entries for name, each in slot.items())
        return [(name, progress) for name, progress in found if progress is not None]

    @property
    def records(self) -> StoredPluginStates:
        """The records of plugins, and requests to the process that has the store open."""
        return StoredPluginStates.of(self.root, self.disk)

    def dispatched_to(self, plugin: str) -> int | None:
        """Return the physical offset below which a plugin's files are on disk; None if unknown."""
        progress = self._progress(plugin).load()
        return None if progress is None else progress.physical_offset

    def dead_letters(self, plugin: str) -> DeadLetterFile:
        """Return the file of messages that a plugin failed on and that were skipped."""
        return DeadLetterFile.of(self.root, _checked(plugin), self.disk)

    # ------------------------------------------------------------------ files

    def _path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def _lock(self) -> StoreLock:
        return StoreLock(self._path("lock"), self.root, self.disk)

    def _abort(self) -> AbortFile:
        return AbortFile(self._path("abort"), self.disk)

    def _progress(self, plugin: str) -> ProgressEntry:
        return ProgressEntry(self.state_file, _checked(plugin))


def _checked(plugin: str) -> str:
    if not is_safe_name(plugin):
        raise PluginError(plugin, "no plugin can have this name: files are named after it")
    return plugin


def _size(entry: Entry, disk: Disk) -> int:
    """Return the bytes on disk: less than the size of sparse files, such as RocketMQ's queues."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return sum(_size(below, disk) for below in disk.list(entry.path))
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0  # removed since it was listed

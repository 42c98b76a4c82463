"""`lock_store`: changes a closed store under its lock, without opening it.

Each method says what it leaves if it is interrupted: after every single step, the next opening must
find a store that it can recover.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

import reput
from reput.errors import (
    CorruptFileError,
    PluginNotFoundError,
    ServiceNotAvailableError,
    StoreLockedError,
    StoreNotFoundError,
    expected_at,
)
from reput.files import OWN_DIRECTORY, Disk, FilePool, MappedFileQueue, system_clock
from reput.log import (
    LOG_SECTION,
    CheckedNote,
    LedgerFiles,
    LogEnd,
    LogReader,
    LogStateFile,
    Progress,
    fingerprint_of,
)
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput.storefiles import Phase, path_argument, refuse_broker_files, refuse_unfinished
from reput_tools.offline.closedstore.inspection import Traces

if TYPE_CHECKING:
    from reput.storefiles import StoredPluginState

_WINDOW_SIZE: Final = 1 << 20
_FILES_OPEN: Final = 4
_ELSEWHERE: Final = (
    "DLedger's index has later entries, in files that are not in this directory "
    "(storePathDLedgerCommitLog?)"
)


@contextlib.contextmanager
def lock_store(
    path: str | os.PathLike[str],
    *,
    writes: bool = True,
    derived: bool = False,
    disk: Disk | None = None,
    follow_links: bool = False,
) -> Iterator[ClosedStore]:
    """Hold the lock of a closed store: during the ``with`` block no writer can open it.

    Args:
        path: the store's directory.
        writes: False to change nothing in the store, not even the file ``lock``. If the store has
            no such file, a writer is not kept out, but noticed at the end of the block.
        derived: whether only files and states of plugins are written, and so also beside a log of
            DLedger to which reput may append.
        disk: file operations; the system's when left out.
        follow_links: as for `reput.open`.

    Raises:
        StoreNotFoundError: there is no store.
        UnsupportedFilesError: with ``writes``, the directory holds files of a broker beside which
            reput must not write.
        StoreLockedError: a writer has the store open, or, without ``writes``, came meanwhile.
        UnsafePathError: a link below the store's directory.
    """
    root = os.path.abspath(path_argument("path", path))
    disk = (disk or Disk()).at(root, follow_links=follow_links)
    with contextlib.ExitStack() as opened:
        opened.callback(disk.release)
        closed = ClosedStore(root, disk, writes, opened)
        refuse_unfinished(root, disk)
        if not closed.has_log:
            raise StoreNotFoundError(root, expected_at(root))
        if writes:
            refuse_broker_files(root, disk, disk.list_names(root), appends=derived)
        lock = closed._lock()
        # A writer leaves its lock file. If it does not exist, an inspection must not make it.
        is_locked = writes or disk.exists(lock.path)
        opened.callback(lock.release)
        if is_locked:
            lock.acquire(writes=writes)
        yield closed
        if not is_locked and disk.exists(lock.path):
            raise StoreLockedError(root, None)  # a writer came meanwhile, and may have written


@attrs.define(eq=False)
class ClosedStore(Traces):
    """A store that is not open, whose lock the caller holds."""

    _writes: bool
    _opened: contextlib.ExitStack
    _reader: reput.Store | None = None

    # ------------------------------------------------------------------ its log

    @property
    def log(self) -> LogReader:
        """The log up to its valid end, as it was when first asked for."""
        return self._read().log

    @property
    def last_record_offset(self) -> int:
        """Where the last record of `log` begins; -1 if the log is empty."""
        return self._read().recovery.last_record_offset

    @property
    def is_sound(self) -> bool:
        """Whether nothing of `log` is damaged or lost."""
        store = self._read()
        return not store.losses() and store.recovery.finding is None

    @property
    def next_base_offset(self) -> int:
        """Where the next file of the log begins; an empty last file does not count."""
        with self._files() as files:
            if not files.bases:
                return 0
            return files.bases[-1] if files.bases[-1] == self.closed_at else files.capacity_end

    # ------------------------------------------------------------------ its plugins

    def suspend(self, plugin: str) -> StoredPluginState:
        """Suspend a plugin from the next opening on, until it is resumed; return its record."""
        return self._left(plugin, Phase.SUSPENDED)

    def resume(self, plugin: str) -> StoredPluginState:
        """Have a plugin run again from the next opening on; return its record."""
        return self._left(plugin, Phase.RUNNING)

    def forget_progress(self, plugin: str) -> None:
        """Note that a plugin has seen nothing, so that the next opening rebuilds its files."""
        self._forgotten(plugin)

    def forget_plugin(self, plugin: str) -> None:
        """Note that the store no longer uses a plugin. Its files stay, its progress does not.

        The log may be cut, filled or trimmed before the plugin is added again, of which it is not
        told: so it derives its files again then.

        The order of the steps, and what a crash leaves:

        1. the progress is reset: after a crash from here on, the store still uses the plugin, which
           derives its files again;
        2. the manifest is replaced by one without the plugin and its options;
        3. its record, of a suspension say, is removed: left, no opening would read it.

        Raises:
            PluginNotFoundError: the store does not use it.
        """
        self._check_writes()
        manifest = self.manifest
        used = () if manifest is None else manifest.plugins
        if manifest is None or plugin not in used:
            known = f"it uses {', '.join(used)}" if used else "it uses none"
            raise PluginNotFoundError(plugin, f"the store at {self.root} does not use it; {known}")
        self._forgotten(plugin)
        config = {name: options for name, options in manifest.config.items() if name != plugin}
        rest = tuple(name for name in used if name != plugin)
        attrs.evolve(manifest, plugins=rest, config=config).save(self.state_file)
        self.records.withdraw(plugin)
        self.records.forget(plugin)

    def replace_directories(
        self, plugin: str, built: str, names: Sequence[str], *, aside: str
    ) -> None:
        """Replace directories of a plugin by new ones, built from `log`.

        The order of the steps, and what a crash leaves:

        1. the plugin's progress is reset: after a crash from here on, the next opening rebuilds the
           plugin's files from the log, whatever is there;
        2. the old directories are moved to ``aside``;
        3. the new directories are moved in;
        4. the progress is set to the log's end: from here on the new directories count.

        Steps 2 and 3 are renames; nothing is copied.

        Args:
            plugin: the plugin's name.
            built: directory with the new directories, flushed, on the store's file system.
            names: names of the directories, below the store's directory and below ``built``.
            aside: where the old directories go, made if necessary; on the same file system.

        Raises:
            CorruptFileError: DLedger keeps later files of the log at another place.
        """
        log, last, disk = self.log, self.last_record_offset, self.disk
        self._check_entries()
        self._forgotten(plugin)
        disk.make_directory(aside)
        for name in names:
            if disk.exists(self._path(name)):
                disk.rename(self._path(name), os.path.join(aside, name))
        disk.flush_directory(self.root)
        for name in names:
            if disk.exists(os.path.join(built, name)):
                disk.rename(os.path.join(built, name), self._path(name))
        disk.flush_directory(self.root)
        # The record of the old files, of a failed flush say, is void for the new ones.
        self.records.forget(plugin)
        fingerprint = fingerprint_of(log, last) if last >= 0 else 0
        self._progress(plugin).save(Progress(log.max_physical_offset, last, fingerprint))

    # ------------------------------------------------------------------ more of its log

    def append_files(self, paths: Sequence[str]) -> None:
        """Make finished files the next files of the log; the caller then calls `close_log`.

        The order of the steps, with the reasons:

        1. ``abort`` is written: from here on an opening searches for the log's end;
        2. a blank closes the last file: without it, records in the next file would follow a gap;
        3. the files are renamed one after the other, each durably before the next: a crash leaves a
           shorter, valid log.

        Args:
            paths: the files in their order: flushed, of the log's file size, with physical offsets
                from `next_base_offset` on, and each but the last closed by a blank. The last may be
                shorter in a log whose files grow.

        Raises:
            ServiceNotAvailableError: the store was not closed by reput.
        """
        self._check_writes()
        end, base, disk = self.closed_at, self.next_base_offset, self.disk
        if end is None:
            raise ServiceNotAvailableError(
                "store",
                None,
                None,
                f"{self.root}: the store was not closed; open it once with reput.open and close it",
            )
        own = self._path(OWN_DIRECTORY)
        checked = self.checked_ranges
        if checked.covers(end):
            # Nobody knows whether the records of these files have checksums of their own.
            CheckedNote(self.state_file).save(checked.until(end))
        with self._files() as files:
            disk.make_directory(own, durable=True)
            disk.make_directory(files.directory, durable=True)
            self._abort().create()
            if files.bases and files.bases[-1] == end:
                # The empty last file has the next file's name, and a blank at its start would make
                # it a file without records.
                disk.remove(files.path(end))
                disk.flush_directory(files.directory)
            elif files.bases:
                self._end_last_file(files, end)
            for path in paths:
                files.add(base, path)
                base += files.file_size

    def close_log(self, end_offset: int, last_record_offset: int) -> None:
        """Record the log's new end, and that its queues are not written yet.

        Args:
            end_offset: end of the last record.
            last_record_offset: beginning of the last record.
        """
        self._check_writes()
        with self._files() as files:
            log = LogReader(files, _WINDOW_SIZE, end=LogEnd(end_offset))
            LogStateFile.of(self.root, self.disk).close(log, last_record_offset)
        # Not `remove`: RocketMQ does not look for missing units in a store that was closed.
        self._abort().leave()

    # ------------------------------------------------------------------ steps

    def _check_writes(self) -> None:
        """Check that the store may be written.

        Raises:
            CorruptFileError: the state file does not say which plugins the store has. A new file
                would hide that from the next opening, which refuses it.
        """
        _ = self.manifest
        if not self._writes:
            raise ValueError(
                "the store is held to be read only; see reput_tools.offline.hold(writes=)"
            )

    def _check_entries(self) -> None:
        """Check that a log of DLedger has no later files at another place, as a writer does.

        Raises:
            CorruptFileError: it has.
        """
        log, last = self.log, self.last_record_offset
        if isinstance(log.files, LedgerFiles) and not self.reput_wrote_last:
            entry = log.files.entry_of(last)
            if entry is not None and log.files.has_later(entry.number):
                raise CorruptFileError(*log.path_of(last), _ELSEWHERE)

    def _read(self) -> reput.Store:
        if self._reader is None:
            # Opened for reading, as it finds the same end and damage as the next writer.
            follow = self.disk.follows_links
            reader = reput.open(self.root, "r", plugins=(), disk=self.disk, follow_links=follow)
            self._reader = self._opened.enter_context(reader)
        return self._reader

    def _left(self, plugin: str, phase: Phase) -> StoredPluginState:
        self._check_writes()
        records, is_suspension = self.records, phase is Phase.SUSPENDED
        records.withdraw(plugin)  # an earlier request
        record = records.load(plugin)
        record = attrs.evolve(
            record,
            state=phase,
            asked=is_suspension,
            last_error=record.last_error if is_suspension else None,
            timestamp=system_clock(),
        )
        records.save(plugin, record)
        return record

    def _forgotten(self, plugin: str) -> None:
        self._check_writes()
        progress = self._progress(plugin)
        self.disk.make_directory(os.path.dirname(progress.path), durable=True)
        progress.reset()

    def _end_last_file(self, files: MappedFileQueue, end: int) -> None:
        position = end - files.bases[-1]
        descriptor = self.disk.open(files.path(files.bases[-1]), write=True)
        try:
            blank = SIZE_AND_MAGIC.pack(files.file_size - position, BLANK_MAGIC)
            self.disk.write(descriptor, blank, position)
            if self.disk.size(descriptor) < files.file_size:
                self.disk.truncate(descriptor, files.file_size)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)

    @contextlib.contextmanager
    def _files(self) -> Iterator[MappedFileQueue]:
        manifest = self.manifest
        noted = {} if manifest is None else manifest.config.get(LOG_SECTION, {})
        pool = FilePool(self.disk, _FILES_OPEN)
        try:
            size = noted.get("file_size", 0)  # 0: the files' own size
            files = MappedFileQueue(self._path("commitlog"), size, self.disk, pool)
            files.grows = noted.get("grows") is True
            files.load(writable=False)
            yield files
        finally:
            pool.close()

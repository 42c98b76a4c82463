"""`hold`: a closed store, held by its lock and changed without being opened.

What each method leaves behind when it is cut short stands beside it: the next opening must find a
store that it can bring to its end, after every single step.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.dispatch.phase import Phase
from reput.errors import (
    EXPECTED,
    ServiceNotAvailableError,
    StoreLockedError,
    StoreNotFoundError,
)
from reput.files.clock import system_clock
from reput.files.disk import Disk
from reput.files.mapped import MappedFileQueue
from reput.files.names import OWN_DIRECTORY
from reput.files.pool import FilePool
from reput.log.config import LOG_SECTION
from reput.log.progress import Progress, fingerprint_of
from reput.log.reading.reader import LogEnd, LogReader
from reput.log.recovery.closed import CloseRecord
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput.store.opening import open_store
from reput.store.traces import Traces

if TYPE_CHECKING:
    from reput.dispatch.records.states import PluginRecord
    from reput.log.progress import ProgressFile
    from reput.store.store import Store

__all__ = ["ClosedStore", "hold"]

_WINDOW_SIZE: Final = 1 << 20
_FILES_OPEN: Final = 4


@contextlib.contextmanager
def hold(
    path: str | os.PathLike[str],
    *,
    writes: bool = True,
    disk: Disk | None = None,
    follow_links: bool = False,
) -> Iterator[ClosedStore]:
    """Hold a closed store: until the block ends, no other writer opens it.

    Args:
        path: the store's directory.
        writes: False to change nothing in the store, not even the file ``lock``. Where a store has
            none, a writer that comes meanwhile is not kept out, but noticed at the end.
        disk: file operations; the system's when left out.
        follow_links: as for `reput.open`.

    Raises:
        StoreNotFoundError: no store there.
        StoreLockedError: a writer has it open; without ``writes`` also when one came meanwhile.
        UnsafePathError: a link below the store's directory.
    """
    root = os.path.abspath(os.fspath(path))
    disk = (disk or Disk()).at(root, follow_links=follow_links)
    with contextlib.ExitStack() as opened:
        opened.callback(disk.let_go)
        closed = ClosedStore(root, disk, writes, opened)
        if not disk.exists(os.path.join(root, "commitlog")):
            raise StoreNotFoundError(root, EXPECTED)
        lock = closed._lock()
        # A writer leaves its lock file behind. Where there is none, a look must not make one.
        is_locked = writes or disk.exists(lock.path)
        opened.callback(lock.release)
        if is_locked:
            lock.acquire(writes=writes)
        yield closed
        if not is_locked and disk.exists(lock.path):
            raise StoreLockedError(root, None)  # a writer has come meanwhile, and may have written


@attrs.define(eq=False)
class ClosedStore(Traces):
    """A store that is not open, and of which the caller has the lock."""

    _writes: bool
    _opened: contextlib.ExitStack
    _reader: Store | None = None

    # ------------------------------------------------------------------ its log

    @property
    def log(self) -> LogReader:
        """The log to its valid end, as it was when it was first asked for."""
        return self._read().log

    @property
    def last_record_offset(self) -> int:
        """Where the last record of `log` begins; -1 without one."""
        return self._read().recovery.last_record_offset

    @property
    def is_sound(self) -> bool:
        """Whether nothing of `log` is damaged or lost."""
        store = self._read()
        return not store.losses() and store.recovery.finding is None

    @property
    def next_base_offset(self) -> int:
        """Where the next file of the log begins; an empty last one is passed over."""
        with self._files() as files:
            if not files.bases:
                return 0
            return files.bases[-1] if files.bases[-1] == self.closed_at else files.capacity_end

    # ------------------------------------------------------------------ its plugins

    def suspend(self, plugin: str) -> PluginRecord:
        """Have a plugin get nothing from the next opening on, until it is resumed."""
        return self._left(plugin, Phase.SUSPENDED)

    def resume(self, plugin: str) -> PluginRecord:
        """Have a plugin go on at the next opening."""
        return self._left(plugin, Phase.RUNNING)

    def forget_progress(self, plugin: str) -> None:
        """Note that a plugin has seen nothing; the next opening derives its files anew."""
        self._forgotten(plugin)

    def replace_directories(
        self, plugin: str, built: str, names: Sequence[str], *, aside: str
    ) -> None:
        """Put directories of a plugin that were built from `log` in the place of its old ones.

        The order, and what a crash leaves after each step:

        1. the plugin's progress says that it has seen nothing: from here on the next opening
           derives its files anew from the log, whatever lies there, if it comes to that;
        2. the old directories go aside;
        3. the new ones come in;
        4. the progress says that they are complete: the new ones count.

        Steps 2 and 3 are renames; nothing is copied.

        Args:
            plugin: whose they are.
            built: where the new ones are, on disk; on the store's file system.
            names: of the directories, below the store's and below ``built``.
            aside: where the old ones go, made if need be; on the same file system.
        """
        log, last, disk = self.log, self.last_record_offset, self.disk
        file = self._forgotten(plugin)
        disk.make_directory(aside)
        for name in names:
            if disk.exists(self._path(name)):
                disk.rename(self._path(name), os.path.join(aside, name))
        disk.flush_directory(self.root)
        for name in names:
            if disk.exists(os.path.join(built, name)):
                disk.rename(os.path.join(built, name), self._path(name))
        disk.flush_directory(self.root)
        # What was remembered of the old files, a failed flush say, means nothing for the new ones.
        self.records.forget(plugin)
        fingerprint = fingerprint_of(log, last) if last >= 0 else 0
        file.save(Progress(log.max_physical_offset, last, fingerprint))

    # ------------------------------------------------------------------ more of its log

    def append_files(self, paths: Sequence[str]) -> None:
        """Make finished files the next ones of the log; then call `close_log`.

        The order, and why:

        1. ``abort`` and no close record: each opening from here on looks for the log's end;
        2. a blank closes the last file: without it, records in the next one would follow a gap;
        3. the files get their names, one after the other, each name on disk before the next: a
           crash leaves a log that is shorter, and valid.

        Args:
            paths: in their order; on disk, of the size of the log's files, the records in them
                numbered from `next_base_offset` on, and each file but the last closed by a blank.

        Raises:
            ServiceNotAvailableError: no writer noted where the log ends.
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
        with self._files() as files:
            disk.make_directory(os.path.join(own, "progress"), durable=True)
            disk.make_directory(files.directory, durable=True)
            self._abort().create()
            CloseRecord.remove(self.root, disk)
            disk.flush_directory(own)
            if files.bases and files.bases[-1] == end:
                # Its name is the next file's, and a blank at its start would be a file of no
                # records.
                disk.remove(files.path(end))
                disk.flush_directory(files.directory)
            elif files.bases:
                self._end_last_file(files, end)
            for path in paths:
                files.add(base, path)
                base += files.file_size

    def close_log(self, end_offset: int, last_record_offset: int) -> None:
        """Note where the log ends now, and that its queues are not written yet.

        Args:
            end_offset: the end of its last record.
            last_record_offset: where that record begins.
        """
        self._check_writes()
        with self._files() as files:
            log = LogReader(files, _WINDOW_SIZE, end=LogEnd(end_offset))
            CloseRecord.save(self.root, log, last_record_offset, self.disk)
        # RocketMQ does not look for messages without queues in a store that was closed.
        self._abort().leave()

    # ------------------------------------------------------------------ steps

    def _check_writes(self) -> None:
        if not self._writes:
            raise ValueError("the store is held to be read only; see reput.offline.hold(writes=)")

    def _read(self) -> Store:
        if self._reader is None:
            # As its next writer will find it: its valid end, its damage.
            follow = self.disk.follows_links
            reader = open_store(self.root, "r", plugins=(), disk=self.disk, follow_links=follow)
            self._reader = self._opened.enter_context(reader)
        return self._reader

    def _left(self, plugin: str, phase: Phase) -> PluginRecord:
        self._check_writes()
        records, is_suspension = self.records, phase is Phase.SUSPENDED
        records.withdraw(plugin)  # what was asked before
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

    def _forgotten(self, plugin: str) -> ProgressFile:
        self._check_writes()
        file = self._progress(plugin)
        self.disk.make_directory(os.path.dirname(file.path), durable=True)
        # Twice, for the file has two slots, and none of them may lead back to the old files.
        file.load()
        file.save(Progress(0, -1, 1))
        file.save(Progress(0))
        return file

    def _end_last_file(self, files: MappedFileQueue, end: int) -> None:
        position = end - files.bases[-1]
        descriptor = self.disk.open(files.path(files.bases[-1]), write=True)
        try:
            blank = SIZE_AND_MAGIC.pack(files.file_size - position, BLANK_MAGIC)
            self.disk.write(descriptor, blank, position)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)

    @contextlib.contextmanager
    def _files(self) -> Iterator[MappedFileQueue]:
        manifest = self.manifest
        noted = {} if manifest is None else manifest.config.get(LOG_SECTION, {})
        pool = FilePool(self.disk, _FILES_OPEN)
        try:
            size = noted.get("file_size", 0)  # 0: the files say
            files = MappedFileQueue(self._path("commitlog"), size, self.disk, pool)
            files.load(writable=False)
            yield files
        finally:
            pool.close()

"""Opens a store: finds the log's end, brings the plugins in line with it, starts the threads.

The order of a writer's opening, and why:

1. the lock, before anything is looked at: a store has one writer;
2. the plugins' classes and options, before anything is changed: a wrong option costs nothing;
3. ``abort``, before the first change: a crash from here on is noticed next time;
4. the log's valid end, everything behind it cut;
5. plugins load, cut what lies beyond that end, and say from where they need messages;
6. those that know queue offsets catch up, for a put needs the next ones;
7. the threads, and puts.

Source: RocketMQ ``DefaultMessageStore#load`` and ``#start``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from reput.allocate import FileAllocator
from reput.checkpoint import AbortFile, Checkpoint, StoreLock
from reput.closerecord import CloseRecord
from reput.commitlog import CommitLog
from reput.config import CommitLogConfig
from reput.context import StoreContext
from reput.disk import Disk, FilePool
from reput.encode import Encoder
from reput.errors import PluginError, StoreNotFoundError
from reput.flush import LogFlusher
from reput.housekeeping import Housekeeping, fingerprint_of
from reput.ids import pack_host
from reput.layout import file_name
from reput.manifest import OWN_DIRECTORY, Manifest
from reput.mappedfile import unused_path
from reput.plugin import Plugin, build_config
from reput.pluginset import PluginSet, installed
from reput.progress import Progress, ProgressFile
from reput.queueoffsets import count_queue_offsets
from reput.recovery import Recovery, find_end
from reput.reputloop import ReputLoop
from reput.storeconfig import LOG_SECTION, decide, read_sections, with_file_size

if TYPE_CHECKING:
    from reput.store import Store

logger = logging.getLogger(__name__)

__all__ = ["open_store"]

_LOG_FILES_OPEN = 64
_KEEP_SIZE = 64 << 20


def open_store(
    path: str | os.PathLike[str],
    mode: Literal["w", "r"] = "w",
    *,
    plugins: Iterable[str | Plugin] | None = None,
    config: Mapping[str, Mapping[str, Any]] | str | os.PathLike[str] | None = None,
    clock: Callable[[], int] | None = None,
    disk: Disk | None = None,
    forget: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
    threads: bool = True,
) -> Store:
    """Open a store of ours or of RocketMQ's.

    Args:
        path: the store's directory; made when there is none and ``mode`` is ``"w"``.
        mode: ``"w"`` to put and read; one writer at a time. ``"r"`` to read only, beside a writer
            or not; never writes a byte.
        plugins: names of installed plugins, or plugin objects. None: those that the store used
            last, or, where that is not known, the installed plugins that are default ones.
        config: options by section (``commitlog``, and one per plugin), or the path of a TOML file
            of such sections. What a store was given is recorded, and counts until given anew.
        clock: now, in ms; the system's when left out.
        disk: file operations; the system's when left out.
        forget: names of plugins that the store used and shall not use any more.
        progress: called while the log's end is looked for, with bytes done and bytes in all.
        threads: False: nothing runs in the background. Plugins are given messages inside of
            `Store.wait_dispatched` and `Store.close`, and files are flushed inside of
            `Store.flush` and `Store.close`, all on the caller's thread and in the same order each
            time.

    Raises:
        StoreNotFoundError: no store there, and ``mode`` is ``"r"``.
        StoreLockedError: another writer has it open.
        ConfigError: an unknown section or option, or a wrong value.
        PluginError: a plugin that is missing, broken, or left out though the store uses it.
        CorruptFileError: files that contradict the format.
    """
    if mode not in ("w", "r"):
        raise ValueError(f'mode must be "w" or "r", not {mode!r}')
    opening = _Opening(os.path.abspath(os.fspath(path)), mode == "w", disk or Disk(), clock)
    opening.threads = threads
    try:
        return opening.run(plugins, read_sections(config), frozenset(forget), progress)
    except BaseException:
        opening.undo()
        raise


class _Opening:
    """One opening under way; knows what to undo when it fails."""

    def __init__(
        self, root: str, writable: bool, disk: Disk, clock: Callable[[], int] | None
    ) -> None:
        self.root = root
        self.writable = writable
        self.disk = disk
        self.clock = clock
        self.threads = True
        self.pool = FilePool(disk, _LOG_FILES_OPEN)
        self.lock: StoreLock | None = None
        self.allocator: FileAllocator | None = None
        self.log: CommitLog | None = None
        self.abort = AbortFile(os.path.join(root, "abort"), disk)
        self.made_abort = False
        self.changed = False
        self.plugins: PluginSet | None = None

    # ------------------------------------------------------------------ the steps

    def run(
        self,
        wanted: Iterable[str | Plugin] | None,
        given: Mapping[str, Mapping[str, Any]],
        forget: frozenset[str],
        progress: Callable[[int, int], None] | None,
    ) -> Store:
        log_directory = os.path.join(self.root, "commitlog")
        if self.writable:
            if not self.disk.exists(self.root):
                # A wrong option must not leave a directory behind.
                names, sections = decide(None, wanted, given, forget, self.writable)
                PluginSet(names, sections)
                build_config(CommitLogConfig, LOG_SECTION, sections.get(LOG_SECTION, {}))
            self.disk.make_directory(self.root)
            self.lock = StoreLock(os.path.join(self.root, "lock"), self.root, self.disk)
            self.lock.acquire()
        elif not self.disk.exists(log_directory):
            raise StoreNotFoundError(
                self.root, 'no store: a directory that holds "commitlog" is expected'
            )
        closed = CloseRecord.load(self.root, self.disk)
        clean = not self.abort.present or (closed is not None and self.abort.left_on_purpose)

        manifest = Manifest.load(self.root, self.disk)
        names, sections = decide(manifest, wanted, given, forget, self.writable)
        plugins = self.plugins = PluginSet(names, sections)
        config = build_config(CommitLogConfig, LOG_SECTION, sections.get(LOG_SECTION, {}))
        known_file_size = 0
        if manifest is not None:
            known_file_size = manifest.config.get(LOG_SECTION, {}).get("file_size", 0)
        log = self.log = self._make_log(log_directory, config, known_file_size)
        log.files.load(writable=self.writable)
        config = with_file_size(config, log.files, given)
        remembered = {**sections.get(LOG_SECTION, {}), "file_size": config.file_size}
        sections = {**sections, LOG_SECTION: remembered}

        checkpoint_path = os.path.join(self.root, "checkpoint")
        checkpoint = Checkpoint.load(checkpoint_path, self.disk)
        if self.writable:
            self._begin_changes(manifest, plugins, sections)
        recovery = find_end(log, checkpoint, closed, clean=clean, progress=progress)
        if self.writable:
            recovery = self._cut(log, recovery, clean)
        log.set_end(recovery.end_offset, damaged=recovery.finding is not None)
        log.last_record_offset = recovery.last_record_offset
        log.follows = not self.writable

        if self.writable:
            self.changed = True
            CloseRecord.remove(self.root, self.disk)
        files = self._progress_files(plugins)
        positions = self._recover_plugins(plugins, log, files, clean, recovery, manifest)
        loop = housekeeping = None
        if self.writable:
            log.config = config
            log.prefaults &= self.threads
            log.flusher = LogFlusher(log, recovery.end_offset)
            if not clean:
                # What recovery read may be in the page cache only; it counts as flushed from here.
                self._flush_recovered(log, recovery)
            keepers = plugins.implementing("reput_queue_offsets")
            loop = ReputLoop(log, plugins, positions, _dispatch_limit(log, config))
            log.flusher.after_flush = loop.wake
            self._queue_offsets(log, loop, plugins)
            log.start_writing(recovery.end_offset)
            housekeeping = Housekeeping(
                log,
                loop,
                plugins.implementing("reput_flush"),
                files,
                checkpoint,
                checkpoint_path,
                self.disk,
                keeps_queues=bool(keepers),
            )
            if self.threads:
                loop.start()
                housekeeping.start(config.flush_interval_ms, config.plugin_flush_interval_ms)
        logger.info(
            "opened root=%s writable=%s clean=%s max_physical_offset=%d",
            self.root,
            self.writable,
            clean,
            recovery.end_offset,
        )
        from reput.store import Store

        return Store(
            root=self.root,
            writable=self.writable,
            clean=clean,
            log=log,
            config=config,
            plugins=plugins,
            positions=positions,
            versions={found.name: found.version for found in installed()},
            loop=loop,
            housekeeping=housekeeping,
            recovery=recovery,
            pool=self.pool,
            lock=self.lock,
            abort=self.abort,
            release=self.release,
        )

    def _make_log(self, directory: str, config: CommitLogConfig, known_file_size: int) -> CommitLog:
        encoder = Encoder(
            pack_host(config.store_address, config.store_port),
            config.max_message_size,
            record_crc=config.record_crc,
        )
        log = CommitLog(directory, config, encoder, self.disk, self.pool, None, self.clock)
        log.files.file_size = known_file_size  # 0: the files say
        return log

    def _begin_changes(
        self,
        manifest: Manifest | None,
        plugins: PluginSet,
        sections: Mapping[str, Mapping[str, Any]],
    ) -> None:
        assert self.log is not None
        own = os.path.join(self.root, OWN_DIRECTORY)
        self.disk.make_directory(os.path.join(own, "progress"))
        self.disk.make_directory(self.log.files.directory)
        self.made_abort = not self.abort.present
        if self.made_abort or self.abort.left_on_purpose:
            self.abort.create()
        fresh = Manifest(tuple(sorted(plugins.plugins)), sections)
        if fresh != manifest:
            fresh.save(self.root, self.disk)
        self.allocator = FileAllocator(
            own, self.log.files.file_size, self.disk, ahead=self.log.config.preallocate
        )
        self.allocator.discard_leftovers()
        self.log.use_allocator(self.allocator)

    def _cut(self, log: CommitLog, recovery: Recovery, clean: bool) -> Recovery:
        end = recovery.end_offset
        behind = log.files.capacity_end - end
        self.changed = True
        has_next_file = log.files.base_of(end) not in (None, *log.files.bases[-1:])
        if clean and recovery.finding is None and not has_next_file:
            return recovery
        if recovery.finding is not None:
            self._keep_aside(log, end)
            logger.warning("truncated damaged tail position=%d %s", end, recovery.finding)
        log.files.truncate(end, self._lost_and_found())
        return attrs.evolve(recovery, truncated_size=behind)

    def _keep_aside(self, log: CommitLog, end: int) -> None:
        """Copy what is about to be cut to ``reput/lost+found``, up to the last byte of it."""
        tail = log.files.read(end, min(log.file_size, _KEEP_SIZE)).rstrip(b"\0")
        if tail:
            directory = self._lost_and_found()
            self.disk.make_directory(directory)
            self.disk.replace(unused_path(self.disk, directory, file_name(end)), tail)

    def _lost_and_found(self) -> str:
        return os.path.join(self.root, OWN_DIRECTORY, "lost+found")

    def _progress_files(self, plugins: PluginSet) -> dict[str, ProgressFile]:
        directory = os.path.join(self.root, OWN_DIRECTORY, "progress")
        return {
            name: ProgressFile(os.path.join(directory, name), self.disk)
            for name, _ in plugins.implementing("reput_dispatch")
        }

    def _recover_plugins(
        self,
        plugins: PluginSet,
        log: CommitLog,
        files: Mapping[str, ProgressFile],
        clean: bool,
        recovery: Recovery,
        manifest: Manifest | None,
    ) -> dict[str, int]:
        """Open and recover every plugin; the place from which each needs messages."""
        for name, hook in plugins.implementing("reput_open"):
            hook(context=self._context(name, log, clean))
        recover = dict(plugins.implementing("reput_recover"))
        positions = {}
        for name in plugins.plugins:
            progress = log.min_physical_offset
            if name in files:
                progress = _known_progress(log, files[name], clean, recovery, manifest)
            position = progress
            if name in recover:
                answer = recover[name](max_physical_offset=recovery.end_offset, progress=progress)
                if not isinstance(answer, int):
                    raise PluginError(name, f"reput_recover returned {answer!r}, not an offset")
                position = min(progress, answer)
            positions[name] = max(position, log.min_physical_offset)
            if self.writable and name in files and position < progress:
                # Before the first message comes again: a crash on the way must not leave the old
                # promise standing over files that are being built anew.
                files[name].save(Progress(positions[name]))
        return positions

    def _context(self, name: str, log: CommitLog, clean: bool) -> StoreContext:
        from reput.clock import system_clock

        return StoreContext(
            plugin=name,
            root=self.root,
            writable=self.writable,
            clean=clean,
            log=log,
            disk=self.disk,
            clock=self.clock or system_clock,
        )

    def _flush_recovered(self, log: CommitLog, recovery: Recovery) -> None:
        for base in log.files.bases:
            if base + log.file_size > recovery.start_offset:
                with self.pool.descriptor(log.files.path(base)) as descriptor:
                    self.disk.flush(descriptor)

    def _queue_offsets(self, log: CommitLog, loop: ReputLoop, plugins: PluginSet) -> None:
        knowing = {name for name, _ in plugins.implementing("reput_queue_offsets")}
        loop.catch_up(knowing)
        failed = sorted(name for name in knowing if loop.failure_of(name) is not None)
        offsets = None if failed else plugins.first("reput_queue_offsets")
        if offsets is None:
            # Reads all of the log; without a plugin that knows, nobody else does.
            offsets = count_queue_offsets(log)
        log.queue_offsets = dict(offsets)

    # ------------------------------------------------------------------ undoing

    def release(self) -> None:
        """Close files and give up the lock."""
        if self.log is not None:
            self.log.close()
        if self.allocator is not None:
            self.allocator.close()
        self.pool.close()
        if self.lock is not None:
            self.lock.release()

    def undo(self) -> None:
        """Close what was opened; take ``abort`` back where nothing was changed yet."""
        if self.plugins is not None:
            for name, hook in self.plugins.implementing("reput_close"):
                try:
                    hook()
                except Exception as error:
                    logger.warning("could not close plugin=%s error=%s", name, error)
        if self.made_abort and not self.changed:
            self.abort.remove()
        self.release()


def _known_progress(
    log: CommitLog,
    file: ProgressFile,
    clean: bool,
    recovery: Recovery,
    manifest: Manifest | None,
) -> int:
    """Physical offset below which a plugin's files are known to be complete and flushed."""
    progress = file.load()
    if progress is None:
        if manifest is not None:
            return log.min_physical_offset  # new in this store: from the beginning
        # RocketMQ wrote it: a closed store is dispatched to its end; after a crash everything is
        # dispatched again from the file that the checkpoint vouches for.
        return recovery.end_offset if clean else recovery.start_offset
    if progress.physical_offset > recovery.end_offset:
        return min(recovery.start_offset, recovery.end_offset)
    record = progress.record_offset
    if record >= log.min_physical_offset and fingerprint_of(log, record) != progress.fingerprint:
        logger.warning("the log was rewritten below a plugin's progress file=%s", file.path)
        return log.min_physical_offset
    return progress.physical_offset


def _dispatch_limit(log: CommitLog, config: CommitLogConfig) -> Callable[[], int]:
    """How far messages may be dispatched: with ``flush="sync"`` as far as they are on disk."""
    if config.flush == "sync":
        return lambda: min(log.flushed_offset, log.max_physical_offset)
    return lambda: log.max_physical_offset

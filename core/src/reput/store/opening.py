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

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from reput.dispatch.calls import PluginCalls, texts_of
from reput.dispatch.config import DispatchConfig
from reput.dispatch.flusher import PluginFlusher
from reput.dispatch.loop import ReputLoop
from reput.dispatch.members import Members
from reput.dispatch.opener import PluginOpener
from reput.dispatch.records.deadletters import DeadLetterFile
from reput.dispatch.records.manifest import Manifest
from reput.dispatch.records.states import PluginRecords
from reput.dispatch.runner import Board
from reput.dispatch.startplaces import checked_offsets, dispatch_limit, known_progress
from reput.dispatch.workers import Workers
from reput.errors import EXPECTED, StoreNotFoundError
from reput.files.allocate import FileAllocator
from reput.files.clock import system_clock
from reput.files.disk import Disk
from reput.files.names import OWN_DIRECTORY
from reput.files.pool import FilePool
from reput.log.config import CommitLogConfig
from reput.log.losses import LossLedger
from reput.log.progress import FLUSHED, Progress, ProgressFile
from reput.log.reading.reader import skipped
from reput.log.recovery.checkpoint import Checkpoint
from reput.log.recovery.closed import CloseRecord
from reput.log.recovery.end import RecoveryReport, find_end
from reput.log.recovery.repair import mend, rewrite
from reput.log.writing.commitlog import CommitLog
from reput.log.writing.flusher import GroupCommit
from reput.log.writing.queuefloors import QueueFloors
from reput.log.writing.queueoffsets import after_lost_ones, count_queue_offsets
from reput.plugin.base import Plugin, build_config
from reput.plugin.host.discovery import installed
from reput.plugin.host.pluginset import PluginSet
from reput.record.encoding.one import Encoder
from reput.record.ids import pack_host
from reput.record.plain import shown
from reput.retention.config import RetentionConfig
from reput.retention.holds import LiveHolds, RecordedHolds
from reput.retention.planner import Planner, RetentionReader
from reput.retention.service import RetentionService
from reput.store.abort import AbortFile
from reput.store.access import PluginStore, StoreBinding
from reput.store.arguments import (
    flag_argument,
    function_argument,
    listed,
    names_argument,
    path_argument,
)
from reput.store.config import (
    DISPATCH_SECTION,
    LOG_SECTION,
    RETENTION_SECTION,
    decide,
    read_sections,
    with_file_size,
)
from reput.store.exiting import close_at_exit
from reput.store.forked import guard, guard_disk
from reput.store.lock import StoreLock
from reput.store.problems import Problems

if TYPE_CHECKING:
    from reput.record.batch import DispatchBatch
    from reput.store.store import Store

logger = logging.getLogger(__name__)

__all__ = ["open_store"]

_LOG_FILES_OPEN = 64
_CLOSE_SECONDS = 10.0
_CATCH_UP_FLUSH_SECONDS = 1.0


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
    follow_links: bool = False,
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
        progress: called while the log's end is looked for, and then while plugins catch up that
            must before anything can be put, with bytes done and bytes in all.
        threads: False: nothing runs in the background. Plugins are given messages inside of
            `Store.wait_dispatched` and `Store.close`, and files are flushed inside of
            `Store.flush` and `Store.close`, all on the caller's thread and in the same order each
            time.
        follow_links: whether symbolic links below the store's directory are followed, wherever they
            lead. Only for links that you made yourself: in a store that somebody else packed, a
            link has a writer change what it leads to. ``path`` itself may always be a link.

    Raises:
        TypeError: an argument of a wrong type.
        UnsafePathError: a link below the store's directory, a pipe or a device.
        StoreNotFoundError: no store there, and ``mode`` is ``"r"``.
        StoreLockedError: another writer has it open.
        ConfigError: an unknown section or option, or a wrong value.
        PluginError: a plugin that is missing, broken, or left out though the store uses it.
        CorruptFileError: files that contradict the format.
    """
    if mode not in ("w", "r"):
        raise ValueError(f'mode must be "w" or "r", not {mode!r}')
    if disk is not None and not isinstance(disk, Disk):
        raise TypeError(f"disk: a reput.files.Disk expected, found {shown(disk)}")
    given = read_sections(config)
    plugins = None if plugins is None else listed("plugins", plugins, "names and objects")
    forgotten = frozenset(names_argument("forget", forget))
    clock, progress = function_argument("clock", clock), function_argument("progress", progress)
    threads = flag_argument("threads", threads)
    root, outer = os.path.abspath(path_argument("path", path)), disk or Disk()
    bound = outer.at(root, follow_links=flag_argument("follow_links", follow_links))
    opening = _Opening(root, mode == "w", bound, outer, clock)
    opening.threads = threads
    try:
        return opening.run(plugins, given, forgotten, progress)
    except BaseException:
        opening.undo()
        raise


class _Opening:
    """One opening under way; knows what to undo when it fails."""

    def __init__(
        self,
        root: str,
        writable: bool,
        disk: Disk,
        outer: Disk,
        clock: Callable[[], int] | None,
    ) -> None:
        self.root = root
        self.writable = writable
        self.disk = disk
        self.outer = outer  # for the directories above the store, and nothing else
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
        self.loop: ReputLoop | None = None
        self.problems = Problems(is_refused=writable)
        self.records = PluginRecords(root, disk, self.problems.pass_over)
        self.ledger = LossLedger(root, disk, clock or system_clock)
        self.calls = PluginCalls(root, now=disk.monotonic)
        self.floors = QueueFloors(root, disk, writable=writable, damaged=self.problems.told)

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
                build_config(DispatchConfig, DISPATCH_SECTION, sections.get(DISPATCH_SECTION, {}))
                build_config(
                    RetentionConfig, RETENTION_SECTION, sections.get(RETENTION_SECTION, {})
                )
            self.outer.make_directory(self.root, durable=True)
            self.lock = StoreLock(os.path.join(self.root, "lock"), self.root, self.disk)
            self.lock.acquire()
        elif not self.disk.exists(log_directory):
            raise StoreNotFoundError(self.root, EXPECTED)
        closed = self.problems.noted(lambda: CloseRecord.load(self.root, self.disk), None)
        clean = not self.abort.present or (
            closed is not None and self.problems.noted(lambda: self.abort.left_on_purpose, False)
        )

        manifest = self.problems.manifest(self.root, self.disk)
        names, sections = decide(manifest, wanted, given, forget, self.writable)
        if not self.writable and wanted is None:
            names, sections = self._usable(names, sections)
        plugins = self.plugins = PluginSet(names, sections)
        config = build_config(CommitLogConfig, LOG_SECTION, sections.get(LOG_SECTION, {}))
        rules = build_config(DispatchConfig, DISPATCH_SECTION, sections.get(DISPATCH_SECTION, {}))
        kept = build_config(RetentionConfig, RETENTION_SECTION, sections.get(RETENTION_SECTION, {}))
        known_file_size = 0
        if manifest is not None:
            known_file_size = manifest.config.get(LOG_SECTION, {}).get("file_size", 0)
        log = self.log = self._make_log(log_directory, config, known_file_size)
        log.files.load(writable=self.writable, damaged=self.problems.told)
        config = with_file_size(config, log.files, given)
        log.check_names()
        remembered = {**sections.get(LOG_SECTION, {}), "file_size": config.file_size}
        sections = {**sections, LOG_SECTION: remembered}

        checkpoint_path = os.path.join(self.root, "checkpoint")
        checkpoint = self.problems.noted(
            lambda: Checkpoint.load(checkpoint_path, self.disk), Checkpoint()
        )
        if self.writable:
            self._begin_changes(manifest, plugins, sections)
        files = self._progress_files(plugins)
        log.keeps_records_after_damage = config.recovery == "reput"
        log.ledger = self.ledger
        self.problems.noted(lambda: self.ledger.load(writable=self.writable), None)
        if not self.writable:
            places = (self._flushed_file(), *files.values())
            self.problems.look_for_damaged_notes(
                self.root, self.disk, self.ledger, self.records, places
            )
        lock = StoreLock(os.path.join(self.root, "lock"), self.root, self.disk)
        recovery = find_end(
            log,
            checkpoint,
            closed,
            clean=clean,
            progress=progress,
            flushed=self._flushed_places(files) if log.keeps_records_after_damage else (),
            keeps_records_after_damage=log.keeps_records_after_damage,
            being_written=not self.writable and not clean and lock.is_taken(),
            was_cut_at=self.ledger.cut_was_begun_at,
        )
        if self.writable:
            self.changed = True
            recovery = mend(
                log, recovery, self.ledger, self.root, self.disk, keeps=config.keep_cut, clean=clean
            )
        else:
            log.holes = recovery.holes
            for hole in recovery.holes:
                self.ledger.note(skipped(hole))
        log.set_end(
            recovery.end_offset,
            damaged=recovery.finding is not None,
            last_store_timestamp=recovery.last_store_timestamp,
        )
        log.last_record_offset = recovery.last_record_offset
        log.follows = not self.writable

        if self.writable:
            self.changed = True
            CloseRecord.remove(self.root, self.disk)
        self.calls.threads = self.threads
        binding = StoreBinding()
        board = Board(rules, self.calls)
        opener = PluginOpener(
            self.root,
            self.writable,
            log,
            self.disk,
            self.clock,
            board,
            self.records,
            lambda name: PluginStore(name, binding),
            self.floors,
        )
        if not self.writable:
            opener.note_problem = self.problems.tell
        self._open_plugins(opener, plugins, files, clean, recovery, manifest)
        live = None
        planner = Planner(self.root, log, self.disk, opener.clock or system_clock, kept)
        cleaner: RetentionService | RetentionReader = RetentionReader(
            planner, RecordedHolds(log, board.runners)
        )
        if self.writable:
            log.config = config
            log.prefaults &= self.threads
            log.flusher = GroupCommit(log, recovery.end_offset)
            if not clean:
                rewrite(log, recovery.start_offset, recovery.end_offset, self.disk)
            loop = self.loop = ReputLoop(
                log,
                board,
                dispatch_limit(log, config),
                self._write_dead_letter,
                threads=self.threads,
            )
            loop.use(list(plugins.plugins))
            log.flusher.after_flush = loop.wake
            loop.start()
            workers = Workers(board, self.clock or system_clock, threads=self.threads)
            opener.wake = workers.wake
            plugin_flusher = PluginFlusher(
                log, board, files, checkpoint, checkpoint_path, self.disk
            )
            plugin_flusher.use(plugins.hooks)
            workers.use()
            self._queue_offsets(log, loop, plugins, plugin_flusher, progress)
            log.start_writing(recovery.end_offset)
            live = Members(
                self.root,
                plugins,
                sections,
                opener,
                board,
                self.records,
                loop,
                workers,
                plugin_flusher,
                files,
                self.disk,
                opener.clock or system_clock,
            )
            plugin_flusher.each_round = live.tick
            holds = LiveHolds(log, live)
            cleaner = RetentionService(
                planner, holds, plugin_flusher.flush, live.still, self.floors
            )
            if kept.disk_warn_ratio:
                cleaner.look_at_disk()
            workers.add(RETENTION_SECTION, cleaner.work)
            if self.threads:
                plugin_flusher.start(config.flush_interval_ms, config.plugin_flush_interval_ms)
        logger.info(
            "opened root=%s writable=%s clean=%s max_physical_offset=%d",
            self.root,
            self.writable,
            clean,
            recovery.end_offset,
        )
        from reput.store.store import Store

        store = Store(
            root=self.root,
            writable=self.writable,
            clean=clean,
            log=log,
            config=config,
            plugins=plugins,
            rules=rules,
            dispatchers=board.runners,
            versions={found.name: found.version for found in installed()},
            calls=self.calls,
            records=self.records,
            live=live,
            cleaner=cleaner,
            recovery=recovery,
            problems=self.problems.all,
            pool=self.pool,
            lock=self.lock,
            abort=self.abort,
            release=self.release,
        )
        binding.store = store
        guard(store, self.root)
        guard(log, self.root)
        guard_disk(self.disk)
        if live is not None:
            # Last: they put messages and read queues.
            live.workers.start()
            close_at_exit(store)
        return store

    def _usable(
        self, names: list[str | Plugin], sections: Mapping[str, Mapping[str, Any]]
    ) -> tuple[list[str | Plugin], Mapping[str, Mapping[str, Any]]]:
        """Without the plugins that are not installed: who only reads lets no files fall behind."""
        known = {found.name for found in installed()}
        missing = [name for name in names if isinstance(name, str) and name not in known]
        for name in missing:
            self.problems.tell(
                f"the store's plugin {name!r} is not installed, so what it keeps is not shown "
                f"(a first-party one comes with: pip install reput-{name})"
            )
        kept = {name: options for name, options in sections.items() if name not in missing}
        return [name for name in names if name not in missing], kept

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
        self.disk.remove_unfinished(self.root, "abort", "checkpoint")
        # Not in "requests": other processes write there at any time.
        for directory in (own, os.path.join(own, "plugins"), os.path.join(own, "lost+found")):
            self.disk.remove_unfinished(directory)
        self.disk.make_directory(os.path.join(own, "progress"))
        self.disk.make_directory(self.log.files.directory)
        self.made_abort = not self.abort.present
        if self.made_abort or self.abort.left_on_purpose:
            self.abort.create()
        if manifest is None or not self.made_abort:
            # Whoever was here before may have been killed when these names were made and not on
            # disk yet; what is put from here on is found by way of them.
            for directory in (self.root, own, self.log.files.directory):
                self.disk.flush_directory(directory)
            with contextlib.suppress(PermissionError):  # not ours, and it was there before us
                self.outer.flush_directory(os.path.dirname(self.root))
        fresh = Manifest(tuple(sorted(plugins.plugins)), sections)
        if fresh != manifest:
            fresh.save(self.root, self.disk)
        self.allocator = FileAllocator(
            own, self.log.files.file_size, self.disk, ahead=self.log.config.preallocate
        )
        self.allocator.discard_leftovers()
        self.log.use_allocator(self.allocator)

    def _flushed_places(self, files: Mapping[str, ProgressFile]) -> list[Progress]:
        """Places below which the log was flushed, as a writer of ours has noted them."""
        places = (self._flushed_file(), *files.values())
        return [place for file in places for place in file.load_all()]

    def _flushed_file(self) -> ProgressFile:
        path = os.path.join(self.root, OWN_DIRECTORY, FLUSHED)
        return ProgressFile(path, self.disk, self.problems.pass_over)

    def _progress_files(self, plugins: PluginSet) -> dict[str, ProgressFile]:
        directory = os.path.join(self.root, OWN_DIRECTORY, "progress")
        return {
            name: ProgressFile(os.path.join(directory, name), self.disk, self.problems.pass_over)
            for name, hooks in plugins.hooks.items()
            if hooks.dispatch is not None
        }

    def _open_plugins(
        self,
        opener: PluginOpener,
        plugins: PluginSet,
        files: Mapping[str, ProgressFile],
        clean: bool,
        recovery: RecoveryReport,
        manifest: Manifest | None,
    ) -> None:
        """Open and recover every plugin."""
        for name in plugins.plugins:
            record = self.records.load(name)
            file = files.get(name)
            progress = opener.log.min_physical_offset
            if file is not None:
                progress = known_progress(opener.log, file, clean, recovery, manifest)
            opened = opener.open(plugins, name, file, progress, clean=clean, record=record)
            runner = opener.runner(plugins, name, opened, record)
            opener.board.add(runner)
            if opened.error is not None and not self.writable:
                self.problems.tell(f"the plugin {name!r} cannot be used: {runner.last_error}")

    def _write_dead_letter(self, plugin: str, batch: DispatchBatch, error: BaseException) -> None:
        now = (self.clock or system_clock)()
        DeadLetterFile.of(self.root, plugin, self.disk).add(batch, error, now)

    def _queue_offsets(
        self,
        log: CommitLog,
        loop: ReputLoop,
        plugins: PluginSet,
        plugin_flusher: PluginFlusher,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        first, end = log.min_physical_offset, loop.limit()
        flushed_at = time.monotonic()

        def report(offset: int) -> None:
            nonlocal flushed_at
            # Who is far behind takes a while: what is done is kept, should somebody end this.
            if self.threads and time.monotonic() - flushed_at >= _CATCH_UP_FLUSH_SECONDS:
                try:
                    plugin_flusher.flush(patience=0.2)
                except OSError as error:
                    logger.warning("progress not written error=%s", error)
                flushed_at = time.monotonic()
            if progress is not None:
                progress(max(offset - first, 0), end - first)

        knowing = {name for name, hooks in plugins.hooks.items() if hooks.queue_offsets}
        loop.wait(end, None, report, names=knowing)
        failed = sorted(name for name in knowing if loop.failure_of(name) is not None)
        offsets = None if failed else checked_offsets(plugins)
        if offsets is None:
            # Reads all of the log; without a plugin that knows, nobody else does.
            offsets = count_queue_offsets(log)
        # A plugin's files know no more than the log where they were made again.
        log.queue_offsets = after_lost_ones(self.floors.above(offsets), log)

    # ------------------------------------------------------------------ undoing

    def release(self) -> None:
        """Close files and give up the lock, as soon as no plugin can write any more."""
        self.calls.refuse()
        with contextlib.ExitStack() as stack:  # each of them, also when one before it fails
            stack.callback(self.disk.let_go)
            if self.lock is not None:
                stack.callback(self._give_up_lock, self.lock)
            stack.callback(self.pool.close)
            if self.allocator is not None:
                stack.callback(self.allocator.close)
            if self.log is not None:
                stack.callback(self.log.close)

    def _give_up_lock(self, lock: StoreLock) -> None:
        hanging = self.calls.running()
        if hanging:
            # A plugin's thread is refused what it still writes through the disk, so that it ends
            # soon; a map or a descriptor of its own it may write as long as it runs, and for that
            # the lock stays. Told before the thread is asked for, which may end in between.
            lock.keep(texts_of(hanging))
        # Whatever comes back to its work later changes nothing where another writer may be by then:
        # such a thread, or what this thread was inside of where a signal handler closes the store.
        self.disk.shut(f"the store was closed; {texts_of(hanging)}" if hanging else "it was closed")
        hanging = self.calls.after_last(lock.release)
        if hanging:
            logger.error("lock kept root=%s reason=%s", self.root, texts_of(hanging))

    def undo(self) -> None:
        """Close what was opened; take ``abort`` back where nothing was changed yet."""
        if self.loop is not None:
            self.loop.stop()
        if self.plugins is not None:
            for name, hook in self.plugins.having(lambda hooks: hooks.close):
                if self.calls.running(name):
                    continue  # it hangs in being opened
                call = self.calls.start(name, "reput_close", hook)
                if call.wait(_CLOSE_SECONDS) and call.error is not None:
                    logger.warning("could not close plugin=%s error=%s", name, call.error)
        try:
            if self.made_abort and not self.changed and self.abort.present:
                self.abort.remove()
        except OSError as error:
            # It stays, and the next opening recovers; what went wrong first is what is raised.
            logger.warning("could not remove file=%s error=%s", self.abort.path, error)
        finally:
            self.release()

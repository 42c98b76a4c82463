"""A writer's stages of opening a store; all earlier stages change nothing.

First `abort`, directories, the manifest and the log's end; then plugins catch up, threads are
started, and puts accepted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

from reput.dispatch.deadletters import DeadLetterFile
from reput.dispatch.logtrimmer import LogTrimmer
from reput.dispatch.manifest import Manifest
from reput.dispatch.pluginlifecycle import PluginLifecycle
from reput.dispatch.pluginopener import checked_offsets
from reput.dispatch.retentionholds import LiveHolds
from reput.dispatch.runtime.groupcontext import GroupContext
from reput.dispatch.runtime.pluginflusher import PluginFlusher
from reput.dispatch.runtime.pluginrunner import RunnerContext
from reput.dispatch.runtime.reputloop import ReputLoop
from reput.dispatch.runtime.workscheduler import WorkScheduler
from reput.files.filenames import OWN_DIRECTORY
from reput.files.mappedfile import FIRST_SIZE
from reput.files.preallocation import FileAllocator
from reput.files.system.flushing import is_disk_full
from reput.log.progress import Progress
from reput.log.reader.ledgerfiles import LedgerFiles
from reput.log.recovery.repair import Reflush, repair
from reput.log.statefile import HEAD
from reput.log.writer.commitlog import CommitLog
from reput.log.writer.queueoffsets import QueueFloors, count_queue_offsets, skip_lost_offsets
from reput.store.opening.assembly import finished, open_plugin, open_plugins
from reput.store.opening.logstages import LogFindings, examine
from reput.store.operations.activeplugins import ActivePlugins
from reput.store.operations.puts import PutPath
from reput.store.operations.report import live_state
from reput.store.pluginstore import StoreAccessPoint, StoreComponents, WriterComponents
from reput.store.processexit import close_at_exit, do_not_close_at_exit

if TYPE_CHECKING:
    from reput.dispatch.pluginopener import PluginOpener
    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.reader.batchreader import CheckedRanges
    from reput.plugin.pluginset import PluginSet
    from reput.record.batch import DispatchBatch
    from reput.store.opening.stages import LockedStore, OpenRequest, Settings
    from reput.store.store import Store

logger = logging.getLogger(__name__)

_CATCH_UP_FLUSH_SECONDS = 1.0


def open_to_write(
    request: OpenRequest, locked: LockedStore, settings: Settings, files: MappedFileQueue
) -> Store:
    """Open a store with the log ``files``, whose lock is held, to write."""
    allocator, take_back = begin_changes(request, locked, settings, files)
    found = examine(request, locked, settings, files)
    request.undoing.when_failed.remove(take_back)
    found = repair_log(request, locked, settings, found)
    log = open_writable_log(request, settings, files, found, allocator)
    # Undone first, so that no hook is called after it.
    request.undoing.in_any_case.append(locked.calls.refuse)
    return start_writing(request, locked, settings, found, log)


def begin_changes(
    request: OpenRequest, locked: LockedStore, settings: Settings, files: MappedFileQueue
) -> tuple[FileAllocator, Callable[[], None]]:
    """Write ``abort`` and the manifest, and make the store's directories.

    Returns:
        What makes files, and what undoes these changes, as long as nothing else was changed.
    """
    disk, abort, own = request.disk, locked.note.abort, request.path(OWN_DIRECTORY)
    is_new = not abort.present
    # Where a kill leaves half of a file: before "abort" is written, or after it was removed, when
    # plugins close. Not in "requests", as other processes write there at any time.
    disk.finish_replacing(request.root, "abort", "checkpoint", flush=False)
    disk.finish_replacing(own, flush=False)
    if not is_new:
        disk.finish_replacing(os.path.join(own, "lost+found"))
    if locked.manifest is None:
        disk.make_directory(own)
    if not files.bases:
        disk.make_directory(files.directory)
    if locked.manifest is None or not is_new:
        # The previous writer may have been killed before these names, or the names of files that
        # it replaced, were on disk. Everything from here on rests on them.
        for directory in (request.root, own, files.directory):
            disk.flush_directory(directory)
        with contextlib.suppress(PermissionError):  # another user's directory, which existed before
            request.outer.flush_directory(os.path.dirname(request.root))

    def take_back() -> None:
        try:
            if is_new and abort.present:
                abort.remove()
        except OSError as error:
            # The file stays, and the next opening recovers. The first error is the one to raise.
            logger.warning("could not remove file=%s error=%s", abort.path, error)

    request.undoing.when_failed.append(take_back)
    if is_new or abort.left_on_purpose:
        abort.create()
    names = tuple(sorted(settings.plugins.plugins))
    fresh = Manifest(names, settings.sections, settings.master)
    if not fresh.is_in(locked.note.state):
        # If this fails, its name may not be on disk: no proper close.
        request.undoing.when_failed.remove(take_back)
        # Known now, so that it costs no wait later: `LogHead.note` writes both slots again.
        first = {} if files.bases else {HEAD: Progress(0).packed()}
        fresh.save(locked.note.state, first)
        request.undoing.when_failed.append(take_back)
    size = files.file_size
    ahead = size >= settings.log.made_ahead_from
    made_size = min(size, FIRST_SIZE) if files.grows else size
    allocator = FileAllocator(own, made_size, disk, ahead=ahead)
    request.undoing.in_any_case.append(allocator.close)
    allocator.discard_leftovers()
    return allocator, take_back


def repair_log(
    request: OpenRequest, locked: LockedStore, settings: Settings, found: LogFindings
) -> LogFindings:
    """Cut the log at the end that was found, and note what it is.

    Returns:
        What is known of the log now, and what brings it to disk up to its end.
    """
    report = repair(
        found.log,
        found.report,
        found.ledger,
        request.root,
        request.disk,
        config=settings.log,
        clean=locked.clean,
        is_replica=settings.master is not None,
    )
    if not locked.clean:
        offsets = report.start_offset, report.end_offset
        reflush = Reflush.of(found.log, *offsets, request.disk)
        request.undoing.when_failed.append(reflush.stop)
        if _may_flush_later(request, locked, settings):
            found = attrs.evolve(found, reflush=reflush)
        else:
            reflush.wait()
    files = found.log.files
    if settings.master is not None and files.bases and report.end_offset == files.min_offset:
        # No record was fed into the first file: the log may begin with another one.
        files.truncate(files.min_offset - 1)
        report = attrs.evolve(report, start_offset=0, end_offset=0)
    found = attrs.evolve(found, report=report)
    if found.last_entry is not None and isinstance(files, LedgerFiles):
        if report.known is None:
            record, end = report.last_record_offset, found.last_entry.end
            locked.note.begin(record, files.read(record, end - record))
        files.note_no_more(found.last_entry.number)
    return attrs.evolve(found, checked=_note_log(request, locked, settings, found))


def _may_flush_later(request: OpenRequest, locked: LockedStore, settings: Settings) -> bool:
    """Whether nothing but plugins that catch up comes before the store is complete.

    What they derive is not noted before that, so that the log may be on disk after it. Not after a
    broker: the lock says from now on that reput has written last.
    """
    is_plain = settings.master is None and locked.ledger is None and locked.lock.is_signed
    return request.threads and is_plain and not settings.log.reads_durable


def _note_log(
    request: OpenRequest, locked: LockedStore, settings: Settings, found: LogFindings
) -> CheckedRanges:
    """Note what the log's bytes do not say: where it begins, where checksums are.

    What nobody has trimmed is noted as a loss. The order of the steps, with the reasons: the
    ledger has the loss before the note hides it, and both notes are right before the lock's letters
    make them count.

    Returns:
        Ranges in which each record has a checksum, also records that are put from now on.
    """
    checked = found.checked.until(found.report.end_offset)
    if settings.log.record_crc and settings.master is None:
        checked = checked.from_on(found.report.end_offset)
    locked.checked.save(checked)
    files = found.log.files
    lost = locked.lost_head(files)
    if lost is not None:
        logger.error(
            "oldest log files are missing noted=%d found=%d; no retention removed them",
            lost.start_offset,
            lost.end_offset,
        )
        found.ledger.note(lost)
    locked.head.note(files.min_offset)
    locked.lock.sign()
    return checked


def open_writable_log(
    request: OpenRequest,
    settings: Settings,
    files: MappedFileQueue,
    found: LogFindings,
    allocator: FileAllocator,
) -> CommitLog:
    """Open the log with the end that was found; it accepts no puts yet."""
    log = CommitLog(
        files,
        settings.log,
        request.disk,
        end=found.report.log_end,
        ledger=found.ledger,
        allocator=allocator,
        clock=request.clock,
        threads=request.threads,
        checked=found.checked,
        master=settings.master,
        last_entry=found.last_entry,
    )
    request.undoing.in_any_case.append(log.close)
    return log


# --------------------------------------------------------------------------- plugins, threads


def start_writing(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    log: CommitLog,
) -> Store:
    """Open the plugins of a writable store, let them catch up, start threads; return the store."""
    plugins, config = settings.plugins, settings.log

    def write_dead_letter(plugin: str, batch: DispatchBatch, error: BaseException) -> None:
        DeadLetterFile.of(request.root, plugin, request.disk).add(batch, error, request.now())

    board = RunnerContext(settings.dispatch, locked.calls)
    context = GroupContext(log, board, write_dead_letter, config.reads_durable)
    loop = ReputLoop(context, threads=request.threads)
    active = ActivePlugins(
        plugins,
        board,
        lambda runner, version: live_state(runner, loop, log, settings.dispatch, version),
        settings.installed,
    )
    point = StoreAccessPoint(active)
    floors = QueueFloors(locked.note.state, writable=True)
    plugin_flusher = PluginFlusher(log, board, found.places, locked.note)
    lower = plugin_flusher.lower_checkpoint
    opener = open_plugins(request, locked, settings, found, log, board, floors, point, lower)
    # Not before: a plugin that removes a file would wait for the disk's journal, and this for the
    # flushed bytes.
    found.start_flush()
    request.undoing.when_failed.append(loop.stop)
    loop.use(board.runners)
    log.flusher.call_after_flush(loop.wake)
    loop.start()
    workers = WorkScheduler(board, request.now)

    def flush(patience: float) -> None:
        found.wait_flushed()
        plugin_flusher.flush(patience)

    pause = settings.dispatch.retry_max_pause_ms / 1_000
    opened_at: dict[str, float] = {}

    def open_again(runner: PluginRunner) -> None:
        # Others wait for the plugin's columns, and this thread for them; no other opens it yet.
        if request.threads and time.monotonic() >= opened_at.get(runner.name, 0.0) + pause:
            board.calls.close_plugin(runner.name, runner.hooks.close, board.stall_seconds)
            record = locked.records.known(runner.name)
            open_plugin(opener, runner, locked, found, record, clean=False)
            opened_at[runner.name] = time.monotonic()

    def make_ready(
        plugins: PluginSet, open_again: Callable[[PluginRunner], None] = lambda runner: None
    ) -> Mapping[tuple[str, int], int]:
        queue_offsets = _queue_offsets(request, plugins, log, loop, flush, open_again, floors)
        found.wait_flushed()
        # Before the first put: a file that counts too many messages must not hide the next ones.
        _call_ready(opener, queue_offsets)
        return queue_offsets

    head = locked.head
    if settings.master is None:
        log.start_writing(make_ready(plugins, open_again))
    else:
        log.start_raw(head.note)
    active.use(plugins)
    writes = PutPath(log, active)

    def changed(plugins: PluginSet) -> None:
        active.use(plugins)
        writes.use()

    members = PluginLifecycle(
        plugins,
        settings.sections,
        opener,
        board,
        locked.records,
        loop,
        workers,
        plugin_flusher,
        found.places,
        request.now,
        changed,
    )
    if request.threads:
        log.flusher.start(config.flush_interval_ms / 1_000)
        request.undoing.when_failed.append(plugin_flusher.stop)
        plugin_flusher.start(config.plugin_flush_interval_ms / 1_000, members.tick)

    def promote() -> None:
        with log.promoting():
            log.flusher.flush()
            queue_offsets = make_ready(active.set)
            members.promote(lambda: log.start_puts(queue_offsets))

    holds = LiveHolds(log, members)
    trimming = LogTrimmer(log, holds, head, floors)
    writer = WriterComponents(log, members, trimming, promote)
    parts = StoreComponents(request.root, request.disk, log, active, holds, writes, writer)
    store = finished(request, locked, settings, found, parts, point)
    trimming.finish()
    request.undoing.when_failed.append(lambda: do_not_close_at_exit(store))
    request.undoing.when_failed.append(workers.stop)
    workers.start()  # last, as workers put messages and read queues
    close_at_exit(store)
    return store


def _call_ready(opener: PluginOpener, queue_offsets: Mapping[tuple[str, int], int]) -> None:
    for runner in opener.board.runners.values():
        if runner.is_active and (error := opener.make_ready(runner, queue_offsets)) is not None:
            if is_disk_full(error):
                runner.not_opened(error, runner.cut_to)  # until the disk has space
            else:
                runner.stop(error)


def _queue_offsets(
    request: OpenRequest,
    plugins: PluginSet,
    log: CommitLog,
    loop: ReputLoop,
    flush: Callable[[float], object],
    open_again: Callable[[PluginRunner], None],
    floors: QueueFloors,
) -> Mapping[tuple[str, int], int]:
    """Return next queue offsets: of a plugin that keeps queues, after it has caught up.

    If no plugin knows them, they are counted from the whole log.
    """
    first, end = log.min_physical_offset, loop.feed.limit()
    flushed_at = time.monotonic()

    def report(offset: int) -> None:
        nonlocal flushed_at
        for runner, _ in loop.feed.enrichers:
            if runner.is_opened_again:
                open_again(runner)
        # A plugin that is far behind takes a while; flush now and then, in case this is
        # interrupted.
        if request.threads and time.monotonic() - flushed_at >= _CATCH_UP_FLUSH_SECONDS:
            try:
                flush(0.2)
            except OSError as error:
                logger.warning("progress not written error=%s", error)
            flushed_at = time.monotonic()
        if request.progress is not None:
            request.progress(max(offset - first, 0), end - first)

    knowing = dict(plugins.having("queue_offsets"))
    loop.wait(end, None, report, names={*knowing})
    stopped = [name for name in knowing if not loop.board.runners[name].is_active]
    offsets = None if stopped else checked_offsets(knowing.values())
    if offsets is None:
        offsets = count_queue_offsets(log)
    # Files that were rebuilt know no more than the log: raise to the floors, and past lost
    # messages.
    return skip_lost_offsets(floors.above(offsets), log)

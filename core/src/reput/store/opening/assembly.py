"""The last stage of opening a store: opens plugins, starts threads, and builds the `Store`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from reput.dispatch.logtrimmer import LogTrimmer
from reput.dispatch.pluginlifecycle import PluginLifecycle
from reput.dispatch.pluginopener import PluginOpener, checked_offsets, known_progress
from reput.dispatch.retentionholds import LiveHolds, RecordedHolds
from reput.dispatch.runtime.groupcontext import GroupContext
from reput.dispatch.runtime.pluginflusher import PluginFlusher
from reput.dispatch.runtime.pluginrunner import RunnerContext
from reput.dispatch.runtime.pluginstate import Stopped
from reput.dispatch.runtime.reputloop import ReputLoop
from reput.dispatch.runtime.workscheduler import WorkScheduler
from reput.dispatch.statefiles.deadletters import DeadLetterFile
from reput.files.system.diskfull import is_disk_full
from reput.log.writer.queueoffsets import QueueFloors, count_queue_offsets, skip_lost_offsets
from reput.store.operations.activeplugins import ActivePlugins
from reput.store.operations.puts import PutPath
from reput.store.operations.report import live_state, recorded_state
from reput.store.pluginstore import StoreAccessPoint, StoreComponents
from reput.store.shutdown.closer import Closer
from reput.store.shutdown.processexit import close_at_exit, do_not_close_at_exit, guard, guard_disk
from reput.store.store import Store

if TYPE_CHECKING:
    from reput.log.writer.commitlog import CommitLog
    from reput.plugin.pluginset import PluginSet
    from reput.record.batch import DispatchBatch
    from reput.store.opening.logstages import LogFindings
    from reput.store.opening.rollback import Rollback
    from reput.store.opening.stages import LockedStore, OpenRequest, Settings

logger = logging.getLogger(__name__)

__all__ = ["close_plugins", "start_reading", "start_writing"]

_CLOSE_SECONDS: Final = 10.0
_CATCH_UP_FLUSH_SECONDS = 1.0


def start_reading(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    log: CommitLog,
    undoing: Rollback,
) -> Store:
    """Open the plugins of a read-only store, and return the store."""
    plugins, board = settings.plugins, RunnerContext(settings.dispatch, locked.calls)
    active = ActivePlugins(
        plugins,
        board,
        lambda runner, version: recorded_state(
            runner, locked.records.load(runner.name), log, settings.dispatch, version
        ),
        settings.installed,
    )
    point = StoreAccessPoint(active)
    floors = QueueFloors(request.root, request.disk, damaged=locked.problems.reporter)
    _open_plugins(_opener(request, locked, log, board, floors, point), locked, settings, found)
    for name, runner in board.runners.items():
        if runner.is_broken:
            locked.problems.report(f"the plugin {name!r} cannot be used: {runner.last_error}")
    active.use(plugins)
    holds = RecordedHolds(board.runners)
    parts = StoreComponents(request.root, request.disk, log, active, PutPath(log, active), holds)
    return _store(parts, point, locked, settings, found, undoing)


def start_writing(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    log: CommitLog,
    undoing: Rollback,
) -> Store:
    """Open the plugins of a writable store, let them catch up, start threads; return the store."""
    plugins, config = settings.plugins, settings.log
    board = RunnerContext(settings.dispatch, locked.calls)
    loop = ReputLoop(GroupContext(log, board, _dead_letters(request)), threads=request.threads)
    active = ActivePlugins(
        plugins,
        board,
        lambda runner, version: live_state(runner, loop, log, settings.dispatch, version),
        settings.installed,
    )
    point = StoreAccessPoint(active)
    floors = QueueFloors(request.root, request.disk, writable=True)
    plugin_flusher = PluginFlusher(log, board, found.places, locked.note)
    opener = _opener(request, locked, log, board, floors, point, plugin_flusher)
    _open_plugins(opener, locked, settings, found)
    undoing.when_failed(loop.stop)
    loop.use(board.runners)
    log.flusher.call_after_flush(loop.wake)
    loop.start()
    workers = WorkScheduler(board, request.now)
    workers.use()

    def flush(patience: float) -> None:
        found.wait_flushed()
        plugin_flusher.flush(patience)

    def make_ready(plugins: PluginSet) -> Mapping[tuple[str, int], int]:
        queue_offsets = _queue_offsets(request, plugins, log, loop, flush, floors)
        found.wait_flushed()
        # Before the first put: a file that counts too many messages must not hide the next ones.
        _call_ready(opener, queue_offsets)
        return queue_offsets

    head = locked.head
    if settings.master is None:
        log.start_writing(make_ready(plugins))
    else:
        log.start_raw(head.note)
    active.use(plugins)
    writes = PutPath(log, active)

    def changed(plugins: PluginSet) -> None:
        active.use(plugins)
        writes.use()

    members = PluginLifecycle(
        request.root,
        plugins,
        settings.sections,
        opener,
        board,
        locked.records,
        loop,
        workers,
        plugin_flusher,
        found.places,
        request.disk,
        request.now,
        changed,
    )
    if request.threads:
        log.flusher.start(config.flush_interval_ms / 1_000)
        undoing.when_failed(plugin_flusher.stop)
        plugin_flusher.start(config.plugin_flush_interval_ms / 1_000, members.tick)

    def promote() -> None:
        with log.promoting():
            log.flusher.flush()
            queue_offsets = make_ready(active.set)
            members.promote(lambda: log.start_puts(queue_offsets))

    holds = LiveHolds(log, members)
    trimming = LogTrimmer(log, holds, head, floors)
    parts = StoreComponents(
        request.root, request.disk, log, active, writes, holds, members, trimming, promote
    )
    store = _store(parts, point, locked, settings, found, undoing)
    trimming.finish()
    undoing.when_failed(lambda: do_not_close_at_exit(store))
    undoing.when_failed(workers.stop)
    workers.start()  # last, as workers put messages and read queues
    close_at_exit(store)
    return store


def _store(
    parts: StoreComponents,
    point: StoreAccessPoint,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    undoing: Rollback,
) -> Store:
    """Return the store that plugins may use from now on, and forked children may not."""
    timeout_ms = settings.dispatch.close_timeout_ms
    closer = Closer(parts, locked.calls, locked.note.abort, undoing.release, timeout_ms)
    store = Store(
        parts, closer, recovery=found.report, clean=locked.clean, problems=locked.problems.all
    )
    point.open(parts, closer.check_open)
    guard(store, store.root)
    guard(parts.log, store.root)
    guard_disk(parts.disk)
    return store


# --------------------------------------------------------------------------- plugins


def _opener(
    request: OpenRequest,
    locked: LockedStore,
    log: CommitLog,
    board: RunnerContext,
    floors: QueueFloors,
    point: StoreAccessPoint,
    plugin_flusher: PluginFlusher | None = None,
) -> PluginOpener:
    return PluginOpener(
        request.root,
        request.writable,
        log,
        request.disk,
        request.now,
        board,
        locked.records,
        locked.note.state,
        point.of,
        floors,
        point.wake,
        point.renew_interest,
        (lambda text: None) if request.writable else locked.problems.report,
        locked.batch_topics,
        None if plugin_flusher is None else plugin_flusher.lower_checkpoint,
    )


def _open_plugins(
    opener: PluginOpener, locked: LockedStore, settings: Settings, found: LogFindings
) -> None:
    """Open and recover every plugin, and add its runner to the board."""
    plugins = settings.plugins
    for name in plugins.plugins:
        record = locked.records.known(name)
        file = found.places.get(name)
        progress = opener.log.min_physical_offset
        if file is not None:
            progress = known_progress(opener.log, file, locked.clean, found.report, locked.manifest)
        runner = opener.runner(plugins, name, record)
        error = opener.open(runner, file, progress, clean=locked.clean, record=record)
        if record.asked and error is None:
            runner.suspend(Stopped.BY_USER)
        opener.board.runners[name] = runner


def _call_ready(opener: PluginOpener, queue_offsets: Mapping[tuple[str, int], int]) -> None:
    for runner in opener.board.runners.values():
        if runner.is_active and (error := opener.make_ready(runner, queue_offsets)) is not None:
            if is_disk_full(error):
                runner.not_opened(error, runner.cut_to)  # until the disk has space
            else:
                runner.stop(error)


def close_plugins(locked: LockedStore, plugins: PluginSet) -> None:
    """Close the plugins that were opened, after opening the store has failed."""
    for name, hooks in plugins.hooks.items():
        locked.calls.close_plugin(name, hooks.close, _CLOSE_SECONDS)


def _dead_letters(request: OpenRequest) -> Callable[[str, DispatchBatch, BaseException], None]:
    def write(plugin: str, batch: DispatchBatch, error: BaseException) -> None:
        DeadLetterFile.of(request.root, plugin, request.disk).add(batch, error, request.now())

    return write


def _queue_offsets(
    request: OpenRequest,
    plugins: PluginSet,
    log: CommitLog,
    loop: ReputLoop,
    flush: Callable[[float], object],
    floors: QueueFloors,
) -> Mapping[tuple[str, int], int]:
    """Return next queue offsets: of a plugin that keeps queues, after it has caught up.

    If no plugin knows them, they are counted from the whole log.
    """
    first, end = log.min_physical_offset, loop.feed.limit()
    flushed_at = time.monotonic()

    def report(offset: int) -> None:
        nonlocal flushed_at
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

    knowing = {name for name, hooks in plugins.hooks.items() if hooks.queue_offsets}
    loop.wait(end, None, report, names=knowing)
    all_run = all(loop.board.runners[name].is_active for name in knowing)
    offsets = checked_offsets(plugins) if all_run else None
    if offsets is None:
        offsets = count_queue_offsets(log)
    # Files that were rebuilt know no more than the log: raise to the floors, and past lost
    # messages.
    return skip_lost_offsets(floors.above(offsets), log)

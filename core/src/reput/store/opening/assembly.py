"""The last stage of opening a store: opens plugins, starts threads, and builds the `Store`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import attrs

from reput.dispatch.pluginopener import PluginOpener, known_progress
from reput.dispatch.retentionholds import RecordedHolds
from reput.dispatch.runtime.pluginrunner import RunnerContext
from reput.dispatch.runtime.pluginstate import Stopped
from reput.log.writer.queueoffsets import QueueFloors
from reput.store.closer import Closer
from reput.store.opening.logstages import examine, open_log
from reput.store.operations.activeplugins import ActivePlugins
from reput.store.operations.report import recorded_state
from reput.store.pluginstore import PluginStore, StoreAccessPoint, StoreComponents
from reput.store.processexit import guard, guard_disk
from reput.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.dispatch.storedpluginstates import StoredPluginState
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.reader.logreader import StoreLog
    from reput.plugin.pluginset import PluginSet
    from reput.store.opening.logstages import LogFindings
    from reput.store.opening.stages import LockedStore, OpenRequest, Settings

_CLOSE_SECONDS: Final = 10.0


def open_to_read(
    request: OpenRequest, locked: LockedStore, settings: Settings, files: MappedFileQueue
) -> Store:
    """Open a store with the log ``files`` to read."""
    found = examine(request, locked, settings, files)
    log = open_log(request, locked, settings, files, found)
    if log.max_physical_offset > found.report.end_offset:
        # What looked like damage at the end was a record that another process was writing.
        found = attrs.evolve(found, report=attrs.evolve(found.report, finding=None))
    # Undone first, so that no hook is called after it.
    request.undoing.in_any_case.append(locked.calls.refuse)
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
    floors = QueueFloors(locked.note.state)
    open_plugins(request, locked, settings, found, log, board, floors, point)
    for name, runner in board.runners.items():
        if runner.is_broken:
            locked.problems.report(f"the plugin {name!r} cannot be used: {runner.last_error}")
    active.use(plugins)
    holds = RecordedHolds(board.runners)
    parts = StoreComponents(request.root, request.disk, log, active, holds)
    return finished(request, locked, settings, found, parts, point)


def finished(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    parts: StoreComponents,
    point: StoreAccessPoint,
) -> Store:
    """Return the store that plugins may use from now on, and forked children may not."""
    timeout_ms = settings.dispatch.close_timeout_ms
    closer = Closer(parts, locked.calls, locked.note.abort, request.undoing.release, timeout_ms)
    store = Store(
        parts, closer, recovery=found.report, clean=locked.clean, problems=locked.problems.all
    )
    point.open(parts, closer.check_open)
    guard(store, store.root)
    guard(parts.log, store.root)
    guard_disk(parts.disk)
    return store


# --------------------------------------------------------------------------- plugins


def open_plugins(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    log: StoreLog,
    board: RunnerContext,
    floors: QueueFloors,
    point: StoreAccessPoint,
    lower_checkpoint: Callable[..., None] = lambda **most: None,
) -> PluginOpener:
    """Open and recover every plugin, and add its runner to the board; return what opens plugins."""
    opener = PluginOpener(
        request.root,
        request.writable,
        log,
        request.disk,
        request.now,
        board,
        locked.records,
        locked.note.state,
        functools.partial(PluginStore, point),
        floors,
        point.wake,
        point.renew_interest,
        (lambda text: None) if request.writable else locked.problems.report,
        locked.batch_topics,
        lower_checkpoint,
    )
    plugins = settings.plugins
    for name in plugins.plugins:
        record = locked.records.known(name)
        runner = opener.runner(plugins, name, record)
        open_plugin(opener, runner, locked, found, record, clean=locked.clean)
        board.runners[name] = runner
    return opener


def open_plugin(
    opener: PluginOpener,
    runner: PluginRunner,
    locked: LockedStore,
    found: LogFindings,
    record: StoredPluginState,
    *,
    clean: bool,
) -> None:
    """Open and recover one plugin: it runs then, is suspended as its user asked, or is broken."""
    log, file = opener.log, found.places.get(runner.name)
    progress = log.min_physical_offset
    if file is not None:
        was_reput = locked.manifest is not None or locked.was_signed
        progress = known_progress(log, file, locked.clean, found.report, was_reput)
    error = opener.open(runner, file, progress, clean=clean, record=record)
    if record.asked and error is None:
        runner.suspend(Stopped.BY_USER)


def close_plugins(locked: LockedStore, plugins: PluginSet) -> None:
    """Close the plugins that were opened, after opening the store has failed."""
    for name, hooks in plugins.hooks.items():
        locked.calls.close_plugin(name, hooks.close, _CLOSE_SECONDS)

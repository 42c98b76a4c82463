"""Facts about a store: JSON-like for `reput.Store.report`, and the `PluginState` of each plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.runtime.pluginstate import READING, WAITING, Phase, PluginFigures, PluginState
from reput.errors import CorruptFileError

if TYPE_CHECKING:
    from reput.dispatch.config import DispatchConfig
    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.dispatch.runtime.reputloop import ReputLoop
    from reput.dispatch.storedpluginstates import StoredPluginState
    from reput.log.reader.logreader import StoreLog
    from reput.log.recovery.endsearch import RecoveryReport
    from reput.store.operations.activeplugins import ActivePlugins

_COUNTED_SIZE = 64 << 20  # bytes of backlog in which messages are counted; beyond, estimated


def facts_of(log: StoreLog, recovery: RecoveryReport, active: ActivePlugins) -> dict[str, Any]:
    """Return the facts about log, recovery, reads and plugins."""
    reports = dict(active.usable("report"))
    plugins = {}
    for state in active.states():
        known = attrs.asdict(state)
        del known["name"], known["version"]
        plugins[state.name] = {**_reported(reports.get(state.name)), **known}
    return {
        "log": {
            "flush_waits": log.flush_facts(),
            "min_physical_offset": log.min_physical_offset,
            "max_physical_offset": log.max_physical_offset,
            "file_size": log.file_size,
            "file_count": log.file_count,
            "role": "primary" if log.master is None else "replica",
            "master": log.master,
        },
        "recovery": {
            "start_offset": recovery.start_offset,
            "end_offset": recovery.end_offset,
            "message_count": recovery.message_count,
            "finding": None if recovery.finding is None else str(recovery.finding),
            "truncated_size": recovery.truncated_size,
        },
        "reads": {"count": active.read_count, "message_count": active.message_count},
        "plugins": plugins,
    }


def _reported(report: Callable[[], Any] | None) -> dict[str, Any]:
    """Return what a plugin reports of itself, or its error."""
    if report is None:
        return {}
    try:
        return dict(report() or {})
    except (Exception, SystemExit) as error:  # must not hide the other facts
        return {"report_error": str(error) or repr(error)}


# --------------------------------------------------------------------------- one plugin


def live_state(
    runner: PluginRunner, loop: ReputLoop, log: StoreLog, config: DispatchConfig, version: str
) -> PluginState:
    """Return the state of a plugin of a writable store."""
    state, error, halted = runner.phase.shown, runner.last_error, loop.board.halted
    if state == Phase.RUNNING:
        error = loop.unread(runner)
    if runner.is_active and halted is not None:
        state, error = Phase.HALTED.value, f"plugin {halted!r} halted all dispatching"
    elif state == Phase.RUNNING and runner.is_waiting:
        state, error = WAITING, f"it requires {', '.join(sorted(runner.requires))}"
    return _state(runner, log, config, version, state, error, runner.figures.shown)


def recorded_state(
    runner: PluginRunner,
    record: StoredPluginState,
    log: StoreLog,
    config: DispatchConfig,
    version: str,
) -> PluginState:
    """Return the state of a plugin of a read-only store, as the last writer recorded it."""
    state, error = READING, runner.last_error
    if error:
        state = Phase.SUSPENDED.value
    elif record.state in (Phase.SUSPENDED, Phase.STALLED, Phase.RETRYING, Phase.HALTED):
        state, error = record.state, record.last_error
    return _state(runner, log, config, version, state, error, record)


def _state(
    runner: PluginRunner,
    log: StoreLog,
    config: DispatchConfig,
    version: str,
    state: str,
    error: str | None,
    figures: PluginFigures,
) -> PluginState:
    end = log.max_physical_offset
    position = end if runner.hooks.dispatch is None else runner.position
    count, exact = _lag(log, position, end)
    return PluginState(
        name=runner.name,
        version=version,
        state=state,
        dispatched_to=position,
        lag_size=max(end - position, 0),
        last_error=error,
        lag_count=count,
        lag_is_exact=exact,
        policy=config.policy_of(runner.name),
        **figures.figures(),
    )


def _lag(log: StoreLog, position: int, end: int) -> tuple[int, bool]:
    """Return the number of messages between two offsets, and whether they were counted."""
    if position >= end:
        return 0, True
    counted_end = position
    count = 0
    try:
        for batch in log.scan(position):
            count += len(batch)
            counted_end = batch.end_offset
            if counted_end - position >= _COUNTED_SIZE and counted_end < end:
                return round(count * (end - position) / (counted_end - position)), False
    except (OSError, CorruptFileError):
        return count, False  # an unreadable log is reported elsewhere
    return count, True

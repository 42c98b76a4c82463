"""Makes the `PluginState` of each plugin of a store: state, place, backlog, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.dispatch.runtime.pluginstate import READING, WAITING, Phase, PluginFigures, PluginState
from reput.errors import CorruptFileError

if TYPE_CHECKING:
    from reput.dispatch.config import DispatchConfig
    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.dispatch.runtime.reputloop import ReputLoop
    from reput.dispatch.statefiles.storedpluginstates import StoredPluginState
    from reput.log.writer.commitlog import CommitLog

__all__ = ["live_state", "recorded_state"]

_COUNTED_SIZE = 64 << 20  # bytes of backlog in which messages are counted; beyond, estimated


def live_state(
    runner: PluginRunner, loop: ReputLoop, log: CommitLog, config: DispatchConfig, version: str
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
    log: CommitLog,
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
    log: CommitLog,
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


def _lag(log: CommitLog, position: int, end: int) -> tuple[int, bool]:
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

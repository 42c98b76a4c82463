"""Which plugins still need the oldest files of the log: for messages not seen, or by their hooks.

Messages count as seen only when the plugin's files are on disk, as after a crash the plugin is
given all later messages again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.runtime.pluginstate import Phase
from reput.errors import PluginError
from reput.plugin.storeaccess import DROP, Hold

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reput.dispatch.pluginlifecycle import PluginLifecycle
    from reput.dispatch.runtime.hookcalls import Call
    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.log.writer.commitlog import CommitLog
    from reput.plugin.hooktable import Hook

logger = logging.getLogger(__name__)

_UNSEEN = "it has not seen the messages from there on"
_STOPPED = f"it does not run (reput resume), and {_UNSEEN}"
_NEEDED = "it needs the messages from there on"
_UNKNOWN = "it does not run, so that what it needs is not known"
_LOOK_SECONDS = 0.05  # how often a plugin that waits for the lock checks whether it was stopped


@attrs.define(eq=False)
class LiveHolds:
    """Asks and notifies the plugins of a writable store.

    A plugin that trims the log itself is given as ``asker``: its own hooks are not called, and it
    does not wait for the lock while it is being suspended or removed, which wait for it.
    """

    log: CommitLog
    live: PluginLifecycle
    _answers: dict[str, int] = attrs.field(factory=dict)
    """Physical offset from which on each plugin needs the log, by its last answer."""
    _notified: dict[str, int] = attrs.field(factory=dict)
    """Beginning of the log that each plugin was notified of last."""

    def membership_lock(self, asker: str) -> AbstractContextManager[Any]:
        """Return a lock; while held, no plugin is added, removed, suspended or resumed."""
        return self._membership_lock_for(asker) if asker else self.live.membership_lock

    @contextlib.contextmanager
    def _membership_lock_for(self, asker: str) -> Iterator[None]:
        lock = self.live.membership_lock
        while not lock.acquire(timeout=_LOOK_SECONDS):
            runner = self.live.board.runners.get(asker)
            if runner is None or not runner.is_active:
                raise PluginError(asker, "it was stopped while it removed files of the log")
        try:
            yield
        finally:
            lock.release()

    def flush(self) -> None:
        """Bring log, plugins and their progress to disk."""
        self.live.plugin_flusher.flush()

    # ------------------------------------------------------------------ asking

    def ask(self, asker: str) -> None:
        """Call `reput_hold` of all running plugins.

        It waits `RunnerContext.stall_seconds` for each at most.
        """
        for runner, hook in self._having("hold", asker):
            if not runner.may_run:
                continue  # its last answer still holds
            # Read before asking: it may need messages that it is given after its answer.
            derives = runner.hooks.dispatch is not None
            reached = runner.position if derives else self.log.max_physical_offset
            call = self._call(runner, "reput_hold", hook)
            needed = None if call is None or not call.is_done else self._answer(runner, call)
            self._answers[runner.name] = 0 if needed is None else min(needed, reached)

    def _answer(self, runner: PluginRunner, call: Call) -> int | None:
        """Return the offset that a plugin needs, the log's end for none; None if not known."""
        result = call.result
        if call.error is not None:
            return None
        if result is None:
            return self.log.max_physical_offset
        if isinstance(result, int) and not isinstance(result, bool):
            return result
        error = TypeError(f"reput_hold returned {result!r}; a physical offset or None expected")
        runner.stop(error)
        return None

    def known(self, unseen: str, asker: str) -> list[Hold]:
        """Ask the plugins; return what they need if their files count as flushed."""
        self.ask(asker)
        with self.membership_lock(asker):
            return self.holds(unseen, asker, flushed=False)

    def holds(self, unseen: str, asker: str, *, flushed: bool = True) -> list[Hold]:
        """Return what the log and the plugins need, by the answers to `ask`.

        Call it while `membership_lock` is held.

        Args:
            unseen: whether messages count that a stopped plugin has not seen (`KEEP`, `DROP`).
            asker: the plugin that trims, if one does.
            flushed: count messages as seen only if the plugin's files are on disk.
        """
        found = []
        if flushed:
            found.append(Hold(self.log.flushed_offset, "", "bytes that are not on disk yet"))
        for runner in self.live.board.runners.values():
            runs = runner.may_run
            if unseen == DROP and not runs and not self._is_inside(runner):
                continue
            if runner.hooks.dispatch is not None:
                state = _UNSEEN if runs else _STOPPED
                seen = self._seen(runner) if flushed else runner.position
                found.append(Hold(seen, runner.name, state))
            if runner.hooks.hold is not None and runner.name != asker:
                reason = _NEEDED if runner.name in self._answers else _UNKNOWN
                found.append(Hold(self._answers.get(runner.name, 0), runner.name, reason))
        return found

    def drop(self, min_physical_offset: int) -> None:
        """Move plugins that do not run past messages that are about to be removed."""
        for runner in self.live.board.runners.values():
            runner.drop(min_physical_offset)

    def _seen(self, runner: PluginRunner) -> int:
        """Return the offset below which a plugin will never be given a message again."""
        file = self.live.progress_files.get(runner.name)
        if file is None:
            return runner.position
        progress = next(iter(file.known()), None)
        return min(runner.position, 0 if progress is None else progress.physical_offset)

    def _is_inside(self, runner: PluginRunner) -> bool:
        """Whether a plugin is in a call after which it may simply go on."""
        return runner.phase is Phase.STALLED or bool(runner.calls)

    # ------------------------------------------------------------------ notifying

    def notify(self, asker: str) -> list[str]:
        """Call `reput_trim` of plugins that do not know the log's beginning yet.

        Returns:
            Names of plugins that could not be notified.
        """
        low = self.log.min_physical_offset
        not_notified = []
        for runner, hook in self._having("trim", asker):
            name = runner.name
            if not runner.may_run:
                self._notified.pop(name, None)  # it is opened again before it goes on
                not_notified.append(name)
            elif self._notified.get(name, -1) < low:
                trim = functools.partial(hook, min_physical_offset=low)
                call = self._call(runner, "reput_trim", trim)
                with self.membership_lock(asker):
                    if self.live.board.runners.get(name) is not runner:
                        self._notified.pop(name, None)  # it is opened again if it is added again
                    elif call is None or not call.is_done or call.error is not None:
                        not_notified.append(name)
                    # The files that it removed must be gone from the disk before it counts.
                    elif self.live.plugin_flusher.flush_plugin(runner, again=True):
                        self._notified[name] = low
                    else:
                        not_notified.append(name)
        return not_notified

    def _having(self, hook: str, asker: str) -> list[tuple[PluginRunner, Hook]]:
        """Return the plugins that implement a hook; they may be removed while others are called."""
        found = self.live.board.runners.values()
        return [
            (runner, function)
            for runner in found
            if runner.name != asker and (function := getattr(runner.hooks, hook)) is not None
        ]

    def _call(self, runner: PluginRunner, hook_name: str, hook: Callable[[], Any]) -> Call | None:
        """Call a hook; return None if the plugin does not run any more."""
        with self.live.board.lock:  # stopping the plugin waits from here on until the call is done
            if not runner.may_run:
                return None
            call = runner.request(hook_name, hook)
        if not call.wait(idle=self.live.board.stall_seconds):
            runner.mark_if_stalled(call)
        return call


@attrs.define(eq=False)
class RecordedHolds:
    """Needs of the plugins of a read-only store, as far as they are known."""

    runners: Mapping[str, PluginRunner]

    def known(self, unseen: str, asker: str) -> list[Hold]:
        """Return what plugins need, by the last writer's records and the plugins' `reput_hold`."""
        found = []
        for name, runner in self.runners.items():
            runs = runner.may_run  # once the next writer opens it
            if unseen == DROP and not runs:
                continue
            if runner.hooks.dispatch is not None:
                found.append(Hold(runner.position, name, _UNSEEN if runs else _STOPPED))
            if runner.hooks.hold is not None and name != asker:
                found += _asked(name, runner, runner.hooks.hold)
        return found


def _asked(name: str, runner: PluginRunner, hook: Callable[[], Any]) -> list[Hold]:
    if runner.is_broken:
        return [Hold(0, name, _UNKNOWN)]
    try:
        needed = hook()
    except Exception as error:  # a plugin may raise anything; nothing is removed here
        return [Hold(0, name, f"what it needs is not known: {error!r}")]
    if needed is None:
        return []
    return [Hold(needed if isinstance(needed, int) else 0, name, _NEEDED)]

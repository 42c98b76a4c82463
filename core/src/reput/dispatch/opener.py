"""Opens and recovers one plugin: when a store is opened, or when the plugin is added or resumed.

An exception, or a call that does not return, stops only this plugin: the store goes on without it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.running.phase import Stopped
from reput.dispatch.running.runner import Board, PluginRunner
from reput.files.names import OWN_DIRECTORY
from reput.files.system.disk import system_clock
from reput.log.progress import Progress, ProgressFile
from reput.plugin.context import StoreContext

if TYPE_CHECKING:
    from reput.dispatch.records.states import PluginRecord, PluginRecords
    from reput.files.system.disk import Disk
    from reput.log.damage import Loss
    from reput.log.writing.commitlog import CommitLog
    from reput.log.writing.queueoffsets import QueueFloors
    from reput.plugin.access import StoreAccess
    from reput.plugin.host.hooktable import PluginHooks
    from reput.plugin.host.pluginset import PluginSet

logger = logging.getLogger(__name__)

__all__ = ["OPEN_SECONDS", "Opened", "PluginOpener"]

OPEN_SECONDS = 120.0
"""How long a plugin may take to open and recover, which may read much of its files."""


@attrs.frozen
class Opened:
    """Result of opening a plugin."""

    position: int
    """Physical offset from which on it needs messages."""
    error: BaseException | str | None = None
    """Why the plugin cannot be used; None if it can."""


@attrs.define(eq=False)
class PluginOpener:
    """Opens plugins of one store."""

    root: str
    writable: bool
    log: CommitLog
    disk: Disk
    clock: Callable[[], int] | None
    board: Board
    records: PluginRecords
    access: Callable[[str], StoreAccess]
    """Returns the store as the plugin of that name may use it."""
    floors: QueueFloors
    wake: Callable[[str], None] = lambda name: None
    """Has a plugin's `reput_work` called soon."""
    renew_interest: Callable[[], None] = lambda: None
    """Asks all plugins again which messages their `reput_put` has to see."""
    note_problem: Callable[[str], None] = lambda text: None
    """Adds to the problems of a read-only store."""

    def open(
        self,
        plugins: PluginSet,
        name: str,
        file: ProgressFile | None,
        progress: int,
        *,
        clean: bool,
        record: PluginRecord,
        queue_offsets: Mapping[tuple[str, int], int] | None = None,
    ) -> Opened:
        """Call `reput_open` and `reput_recover`, and in a store that takes puts `reput_ready`.

        Args:
            plugins: the set that contains the plugin.
            name: the plugin's name.
            file: its progress file; None if it dispatches nothing.
            progress: physical offset below which its files are known to be complete.
            clean: whether the store was closed by its last writer.
            record: the plugin's record.
            queue_offsets: next queue offsets; None while a store is being opened, which calls
                `make_ready` when it knows them.
        """
        context = self._context(name, clean=clean and record.is_clean)
        end = self.log.max_physical_offset
        if record.cut_to is not None and self.writable:
            # After a failed flush the system may have dropped pages that it could not write, but
            # shows them until the next start. For this plugin the log ends where its files are
            # sound.
            progress = max(min(progress, record.cut_to), self.log.min_physical_offset)
            end = min(end, progress)
        hooks, position = plugins.hooks[name], None
        if hooks.open is not None or hooks.recover is not None:
            position, error = self._call(
                name, "reput_open", lambda: _open(hooks, context, end, progress)
            )
            if error is not None:
                return Opened(progress, error)
        if position is None:
            position = progress
        if not isinstance(position, int) or isinstance(position, bool):
            return Opened(progress, f"reput_recover returned {position!r}, not an offset")
        position = max(min(progress, position), self.log.min_physical_offset)
        if self.writable and file is not None and position < progress:
            # Before the first message comes again: after a crash the old progress must not stand
            # over files that were being built again.
            file.save(Progress(position))
        error = None if queue_offsets is None else self.make_ready(plugins, name, queue_offsets)
        return Opened(position, error)

    def make_ready(
        self, plugins: PluginSet, name: str, queue_offsets: Mapping[tuple[str, int], int]
    ) -> BaseException | None:
        """Call `reput_ready` of a plugin that was opened; return why it cannot be used, or None."""
        hook = plugins.hooks[name].ready
        if hook is None:
            return None
        _, error = self._call(name, "reput_ready", lambda: hook(queue_offsets=queue_offsets))
        return error

    def _call(
        self, name: str, hook: str, function: Callable[[], Any]
    ) -> tuple[Any, BaseException | None]:
        """Call a hook on the plugin's thread; return its result, and why there is none."""
        call = self.board.calls.request(name, hook, function)
        if not call.wait(OPEN_SECONDS):
            call.give_up()
            return None, TimeoutError(f"{hook} has not returned after {OPEN_SECONDS:g} s")
        return call.result, call.error

    def runner(
        self, plugins: PluginSet, name: str, opened: Opened, record: PluginRecord
    ) -> PluginRunner:
        """Return the runner of a plugin that was opened, or could not be."""
        runner = PluginRunner(
            self.board,
            name,
            plugins.hooks[name],
            opened.position,
            frozenset(plugins.plugins[name].requires),
            record.skipped_count,
        )
        if opened.error is not None:
            runner.not_opened(opened.error, record.cut_to)
        elif record.asked:
            runner.suspend(Stopped.BY_USER)
        return runner

    def _progress_file(self, name: str) -> ProgressFile:
        path = os.path.join(self.root, OWN_DIRECTORY, "progress", name)
        return ProgressFile(path, self.disk, self.records.unreadable)

    def _context(self, name: str, *, clean: bool) -> StoreContext:
        return StoreContext(
            plugin=name,
            root=self.root,
            writable=self.writable,
            clean=clean,
            log=self.log,
            disk=self.disk,
            clock=self.clock or system_clock,
            replica=self.log.master is not None,
            recovery="reput" if self.log.keeps_records_after_damage else "rocketmq",
            light_queues=self.log.config.max_light_queues > 0,
            recorded=lambda: self._progress_file(name).recorded(),
            queue_floors=self.floors,
            note_loss=self._note_loss,
            note_problem=self.note_problem,
            store=self.access(name),
            wake=lambda: self.wake(name),
            renew_interest=self.renew_interest,
        )

    def _note_loss(self, loss: Loss) -> None:
        # A queue may know a record that a reader does not show yet: it is not lost.
        if self.log.ledger is not None and not self.log.holds_back(loss.start_offset):
            self.log.ledger.note(loss)


def _open(hooks: PluginHooks, context: StoreContext, end: int, progress: int) -> object:
    if hooks.open is not None:
        hooks.open(context=context)
    if hooks.recover is None:
        return None
    return hooks.recover(max_physical_offset=end, progress=progress)

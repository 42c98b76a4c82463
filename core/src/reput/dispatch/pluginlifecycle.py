"""`PluginLifecycle`: adds, removes, suspends and resumes plugins of an open store; records it.

It connects the parts that each do one thing: the plugin set orders plugins, the opener opens one,
the loop dispatches to them, the plugin flusher flushes them, the records remember their states.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.manifest import Manifest
from reput.dispatch.runtime.pluginflusher import called_inside
from reput.dispatch.runtime.pluginstate import Phase, Stopped
from reput.dispatch.storedpluginstates import RESUME, SUSPEND, StoredPluginState
from reput.errors import PluginError, PluginOrderError
from reput.plugin.discovery import plugin_name, plugin_of
from reput.plugin.pluginset import CORE_SECTIONS
from reput.signalsafe import is_held_here, new_lock

if TYPE_CHECKING:
    from reput.dispatch.pluginopener import PluginOpener
    from reput.dispatch.runtime.pluginflusher import PluginFlusher
    from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext
    from reput.dispatch.runtime.reputloop import ReputLoop
    from reput.dispatch.runtime.workscheduler import WorkScheduler
    from reput.dispatch.storedpluginstates import StoredPluginStates
    from reput.log.progress import ProgressEntry
    from reput.plugin.base import Plugin
    from reput.plugin.pluginset import PluginSet

logger = logging.getLogger(__name__)

_FIGURES_SECONDS = 5.0  # how often figures are written while nothing else changes


@attrs.define(eq=False, repr=False)
class PluginLifecycle:
    """The plugins of one writable store."""

    plugins: PluginSet
    """The active plugins; replaced as a whole."""
    sections: Mapping[str, Mapping[str, Any]]
    """The store's configuration, as the manifest records it."""
    opener: PluginOpener
    board: RunnerContext
    records: StoredPluginStates
    loop: ReputLoop
    workers: WorkScheduler
    plugin_flusher: PluginFlusher
    progress_files: dict[str, ProgressEntry]
    clock: Callable[[], int]
    after_change: Callable[[PluginSet], None] = lambda plugins: None
    """Called with the new set after a plugin was added, removed or resumed."""
    membership_lock: threading.RLock = attrs.field(factory=new_lock)
    """While it is held, no plugin is added, removed, suspended or resumed."""
    _figures_at: float = 0.0
    _open_again_at: float = 0.0

    def refuse_inside(self, call: str, *locks: threading.RLock) -> None:
        """Refuse a call of a signal handler that interrupted code whose locks the call waits for.

        Args:
            call: its name in `reput.Store`.
            locks: are held by code inside of which the call is refused, too.

        Raises:
            ServiceNotAvailableError: this thread is inside of that code.
        """
        if any(map(is_held_here, (self.board.lock, self.plugin_flusher.lock, *locks))):
            raise called_inside(call)

    # ------------------------------------------------------------------ add and remove

    def add(self, item: str | Plugin, options: Mapping[str, Any]) -> str:
        """Add a plugin to the store, which then catches up with the log; return its name.

        Raises:
            ServiceNotAvailableError: see `refuse_inside`.
            PluginError: it cannot be found, ordered or opened; the store is unchanged.
            ConfigError: a wrong option.
            OSError: the manifest cannot be written; the store is unchanged.
        """
        self.refuse_inside("add_plugin", self.membership_lock)
        with self.membership_lock:
            name = item if isinstance(item, str) else plugin_name(item)
            name, plugin = plugin_of(item, {name: {**self.sections.get(name, {}), **options}})
            if name in self.plugins.plugins:
                raise PluginError(name, "the store uses it already")
            wider = self.plugins.with_plugin(name, plugin)
            record = attrs.evolve(self.records.known(name), asked=False)
            runner = self.opener.runner(wider, name, record)
            file = None if runner.hooks.dispatch is None else self.opener.progress_of(name)
            try:
                self._open(runner, file, record)
                sections = {**self.sections, name: dict(options)} if options else self.sections
                # The manifest before the first message, as the plugin now belongs to the store.
                self._save_manifest(wider, sections, self.opener.log.master)
            except BaseException:
                self._close(runner)
                raise
            self.sections = sections
            if file is not None:
                self.progress_files[name] = file
            self._use(wider, runner)
            logger.info("plugin added plugin=%s from=%d", name, runner.position)
            return name

    def promote(self, start_puts: Callable[[], None]) -> None:
        """Record that the store is not a replica any more; then call ``start_puts``."""
        with self.membership_lock:  # no other manifest is written in between
            # The manifest first: a put must not be in a log that the next opening takes for a
            # replica's.
            self._save_manifest(self.plugins, self.sections, None)
            start_puts()

    def remove(self, name: str) -> None:
        """Remove a plugin; its files and its progress stay for a later `add`.

        Raises:
            ServiceNotAvailableError: see `refuse_inside`.
            PluginError: the store does not use it, another plugin requires it, or it does not
                return from a call.
            OSError: the manifest cannot be written; the plugin stays and goes on.
        """
        self.refuse_inside("remove_plugin", self.membership_lock)
        with self.membership_lock:
            runner = self._runner(name)
            needing = sorted(
                other for other, plugin in self.plugins.plugins.items() if name in plugin.requires
            )
            if needing:
                raise PluginOrderError(name, f"it is required by {', '.join(needing)}")
            was_running = runner.is_active
            if was_running:
                # Not recorded as suspended: added again, even after a crash, the plugin must run.
                runner.suspend(Stopped.FOR_REMOVAL)
            try:
                self._wait_outside(runner)
            except PluginError:
                if was_running:
                    runner.suspend(Stopped.BY_USER)  # it stays a member
                raise
            narrower = self.plugins.without(name)
            try:
                if was_running:
                    self.plugin_flusher.flush_plugin(runner)
                self._save_manifest(narrower, self.sections, self.opener.log.master)
            except BaseException:
                if was_running and runner.cut_to is None:
                    runner.resume(runner.position)
                elif was_running:
                    runner.suspend(Stopped.BY_USER)  # its flush failed just now
                raise
            self._use(narrower)
            self.plugin_flusher.forget(runner)
            self._close(runner)
            self.board.calls.end_thread(name)
            self._save_record(runner)
            logger.info("plugin removed plugin=%s", name)

    # ------------------------------------------------------------------ suspend and resume

    def suspend(self, name: str) -> None:
        """Give a plugin no messages until it is resumed, even after the store was closed.

        Raises:
            ServiceNotAvailableError: see `refuse_inside`.
            PluginError: the store does not use it.
        """
        self.refuse_inside("suspend_plugin", self.membership_lock)
        with self.membership_lock:
            runner = self._runner(name)
            was_running = runner.is_active
            runner.suspend(Stopped.BY_USER)
            if was_running and runner.wait_outside():
                self.plugin_flusher.flush_plugin(runner)
            self._save_record(runner)

    def resume(self, name: str) -> None:
        """Open a suspended or halted plugin again, and let it catch up.

        Raises:
            ServiceNotAvailableError: see `refuse_inside`.
            PluginError: the store does not use it, it does not return from a call, or it cannot be
                opened; then it stays stopped.
        """
        self.refuse_inside("resume_plugin", self.membership_lock)
        with self.membership_lock:
            runner = self._runner(name)
            if runner.is_active:
                return
            self._wait_outside(runner)
            try:
                runner.reopen(is_begun=True)
                self._close(runner)
                self._open(runner, self.progress_files.get(name), self._record(runner))
            finally:
                runner.reopen(is_begun=False)
                self._save_record(runner)
            self.after_change(self.plugins)
            logger.info("plugin resumed plugin=%s from=%d", name, runner.position)

    # ------------------------------------------------------------------ what is kept on disk

    def tick(self) -> None:
        """Follow requests of other processes and write changed records; never raises."""
        try:
            self.workers.schedule_due()
            self.handle_requests()
            self._open_again()
            due = time.monotonic() - self._figures_at >= _FIGURES_SECONDS
            if due or self.board.changed.is_set():
                self.board.changed.clear()
                self._figures_at = time.monotonic()
                self.save_records()
        except OSError as error:
            logger.warning("records of plugins not written error=%s", error)

    def _open_again(self) -> None:
        """Open the plugins whose opening found the disk full."""
        found = [each.name for each in self.board.runners.values() if each.is_opened_again]
        if not found or time.monotonic() < self._open_again_at:
            return
        for name in found:
            try:
                self.resume(name)
            except PluginError as error:
                logger.warning("plugin not opened, tried again plugin=%s error=%s", name, error)
        self._open_again_at = time.monotonic() + self.board.config.retry_max_pause_ms / 1_000

    def handle_requests(self) -> None:
        """Follow the requests of other processes."""
        for name, request in self.records.requests():
            try:
                if request == SUSPEND:
                    self.suspend(name)
                elif request == RESUME:
                    self.resume(name)
                else:
                    logger.warning("unknown request plugin=%s request=%r", name, request)
            except PluginError as error:
                logger.warning("request not followed plugin=%s error=%s", name, error)
            finally:
                # After the work: the requesting process takes the file's removal for "done".
                self.records.withdraw(name)

    def save_records(self) -> None:
        """Write the record of every plugin that has changed."""
        for runner in self.board.runners.values():
            self._save_record(runner)

    def last_records(self) -> dict[str, bytes]:
        """Return the last records; a plugin whose files are all flushed counts as cleanly closed.

        They are the entries of the state file that have to be written with the last progress.
        """
        found = {}
        for runner in self.board.runners.values():
            flushed = runner.hooks.dispatch is None or self.plugin_flusher.is_flushed(runner)
            stopped = _is_asked(runner) or runner.phase is Phase.RUNNING
            is_clean = flushed and stopped and not runner.is_broken
            found[runner.name] = attrs.evolve(self._record(runner), is_clean=is_clean)
        return self.records.entries(found)

    def queues_reach(self, physical_offset: int) -> bool:
        """Whether a plugin keeps queues, and all that do have flushed everything below an offset.

        Without such a plugin RocketMQ must look for missing units.
        """
        with self.membership_lock:  # the set of plugins must not change meanwhile
            is_kept = False
            for runner in self.board.runners.values():
                if runner.hooks.queue_offsets is not None:
                    # Files of one that its user has suspended are complete all the same.
                    is_whole = runner.is_active or (_is_asked(runner) and not runner.is_broken)
                    is_there = runner.place.position >= physical_offset
                    if not (is_there and is_whole and self.plugin_flusher.is_flushed(runner)):
                        return False
                    is_kept = True
            return is_kept

    def _save_record(self, runner: PluginRunner) -> None:
        self.records.save(runner.name, self._record(runner))

    def _record(self, runner: PluginRunner) -> StoredPluginState:
        is_leaving = runner.stopped is Stopped.FOR_REMOVAL
        return StoredPluginState(
            state=(Phase.RUNNING if is_leaving else runner.phase).shown,
            asked=runner.stopped is Stopped.BY_USER,
            is_clean=_is_asked(runner) or runner.is_active,
            cut_to=runner.cut_to,
            last_error=runner.last_error,
            timestamp=self.clock(),
            dispatched_to=runner.place.position,
            **runner.figures.shown.figures(),
        )

    # ------------------------------------------------------------------ parts

    def _runner(self, name: str) -> PluginRunner:
        if name not in self.plugins.plugins:
            known = ", ".join(self.plugins.plugins) or "none"
            raise PluginError(name, f"the store does not use it; it uses {known}")
        return self.board.runners[name]

    def _wait_outside(self, runner: PluginRunner) -> None:
        if not runner.wait_outside():
            raise PluginError(runner.name, "it has not returned from a call yet")

    def _open(
        self, runner: PluginRunner, file: ProgressEntry | None, record: StoredPluginState
    ) -> None:
        log = self.opener.log
        progress = None if file is None else file.believable_of(file.known(), log)
        if progress is None:
            progress = log.min_physical_offset
        self.plugin_flusher.forget(runner)
        error = self.opener.open(
            runner, file, progress, clean=False, record=record, queue_offsets=log.queue_offsets
        )
        if error is not None:
            raise PluginError(runner.name, f"it cannot be opened: {error}")

    def _close(self, runner: PluginRunner) -> None:
        self.board.calls.close_plugin(runner.name, runner.hooks.close, self.board.stall_seconds)

    def _use(self, plugins: PluginSet, *added: PluginRunner) -> None:
        known = {**self.board.runners, **{runner.name: runner for runner in added}}
        self.plugins = plugins
        self.loop.use({name: known[name] for name in plugins.plugins})
        self.after_change(plugins)
        self.workers.use()

    def _save_manifest(
        self, plugins: PluginSet, sections: Mapping[str, Mapping[str, Any]], master: str | None
    ) -> None:
        kept = {
            name: section
            for name, section in sections.items()
            if name in plugins.plugins or name in CORE_SECTIONS
        }
        names, state = tuple(sorted(plugins.plugins)), self.records.state
        before = Manifest.of(state)
        try:
            Manifest(names, kept, master).save(state)
        except OSError:
            with contextlib.suppress(OSError):
                if before is not None:  # one slot may have the other one
                    before.save(state)
            raise


def _is_asked(runner: PluginRunner) -> bool:
    """Whether a plugin was stopped on request, and not by a failure."""
    return runner.stopped in (Stopped.BY_USER, Stopped.FOR_REMOVAL)

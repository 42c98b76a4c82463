"""Brings a plugin to the end of the log: in this process, or by following the process that writes.

The plugin's progress is flushed about once a second, so that an interruption costs no more than a
second of work; it is kept where every other opening keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from reput.errors import PluginNotFoundError, StoreLockedError
from reput.plugin import installed
from reput.storefiles import Phase
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.kit.storeopening import follows_links, look_at, open_to_read, open_to_write
from reput_tools.cli.kit.storeplugins import check_store, used_plugins
from reput_tools.offline import Traces, lock_store

if TYPE_CHECKING:
    from reput import PluginState, Store

# The writer records its progress in files alone, about once a second, and wakes no other process.
# Looking more often finds soon that the writer has gone.
_POLL_S = 0.25


class CaughtUp(NamedTuple):
    """How far a plugin was brought."""

    root: str
    plugin: str
    is_added: bool
    is_followed: bool
    """Whether another process has the store open, and the plugin catches up there."""
    is_interrupted: bool
    start_offset: int
    dispatched_to: int
    end_offset: int
    """End of the log at the beginning."""
    seconds: float

    @property
    def size(self) -> int:
        """Bytes of the log that the plugin has seen since then."""
        return max(min(self.dispatched_to, self.end_offset) - self.start_offset, 0)

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "path": self.root,
            "plugin": self.plugin,
            "is_added": self.is_added,
            "is_followed": self.is_followed,
            "is_complete": self.dispatched_to >= self.end_offset,
            "is_interrupted": self.is_interrupted,
            "start_offset": self.start_offset,
            "dispatched_to": self.dispatched_to,
            "end_offset": self.end_offset,
            "size": self.size,
            "seconds": round(self.seconds, 3),
        }


def catch_up(path: str, plugin: str, *, from_start: bool, waits: bool) -> CaughtUp:
    """Bring a plugin to the end of the log.

    Args:
        path: the store's directory.
        plugin: the plugin's name.
        from_start: forget the plugin's progress first.
        waits: whether to follow another process that has the store open until the plugin is there.

    Raises:
        Failure: the plugin cannot go on; the text says why and what to do.
        PluginNotFoundError: the plugin is not installed.
    """
    root = check_store(path)
    work = _Work(path, root, plugin, look_at(root))
    work.check_installed()
    while True:
        try:
            return work.directly(from_start=from_start)
        except StoreLockedError as error:
            if from_start:
                text = (
                    f"{root}: {_writer(error.holder_pid)} has the store open; --from-start needs "
                    "it alone: end that process first"
                )
                raise Failure(text, ExitCode.LOCKED) from error
            followed = work.follow(error.holder_pid, waits=waits)
            if followed is not None:
                return followed
            warn("the process that had the store open has closed it; going on here")


@attrs.define(eq=False)
class _Work:
    path: str
    root: str
    plugin: str
    found: Traces

    def check_installed(self) -> None:
        names = used_plugins(self.root) or ()
        offered = [found.name for found in installed()]
        if self.plugin not in names and self.plugin not in offered:
            known = f"installed are: {', '.join(offered) or 'none'}"
            raise PluginNotFoundError(self.plugin, f"not installed; {known}")

    # ------------------------------------------------------------------ in this process

    def directly(self, *, from_start: bool) -> CaughtUp:
        if from_start:
            with lock_store(self.root, derived=True, follow_links=follows_links()) as closed:
                closed.forget_progress(self.plugin)
        names = used_plugins(self.root)
        is_added = names is None or self.plugin not in names
        started, recorded = time.monotonic(), self.found.dispatched_to(self.plugin)
        start, is_interrupted = recorded or 0, False
        try:
            # Plugins that keep queues catch up while the store is opened: a put needs their
            # offsets.
            with open_to_write(self.path, waits=False) as store:
                try:
                    if self.plugin not in store.plugin_objects:
                        store.add_plugin(self.plugin)
                    if recorded is None and names is not None:
                        recorded = store.log.min_physical_offset
                    if is_added:
                        warn(f"the store now uses the plugin {self.plugin!r} whenever it is opened")
                    start = self._start(store, recorded)
                    end = store.log.max_physical_offset
                    reached = self._wait(store, start, end)
                    derives = _derives(store, self.plugin)
                except KeyboardInterrupt:
                    # A plugin with a backlog does not prolong the wait: it is stopped.
                    store.close(timeout=0)
                    raise
            if derives:
                # Seen is not flushed: closing has flushed it, or leaves it to the next opening.
                reached = self._recorded_place()
                if reached < end:
                    raise _not_flushed(self.root, self.plugin, reached, end)
        except KeyboardInterrupt:
            is_interrupted, reached = True, self._recorded_place()
            with open_to_read(self.path, plugins=()) as store:
                end = store.log.max_physical_offset
        seconds = time.monotonic() - started
        return CaughtUp(
            self.root, self.plugin, is_added, False, is_interrupted, start, reached, end, seconds
        )

    def _start(self, store: Store, recorded: int | None) -> int:
        """Return where the plugin begins: its place before the opening, or where that moved it."""
        state = self._state(store)
        if state.state in (Phase.SUSPENDED, Phase.HALTED):
            raise _stopped(self.root, self.plugin, state.state, state.last_error)
        if recorded is None or not _derives(store, self.plugin):
            return state.dispatched_to
        return max(min(recorded, state.dispatched_to), store.log.min_physical_offset)

    def _wait(self, store: Store, start: int, end: int) -> int:
        """Show the plugin's progress until it has all of the log; return how far it is then."""
        first = store.log.min_physical_offset
        with ProgressBar(f"backfilling {self.plugin}", end - start, "bytes") as progress:
            store.wait_dispatched(
                progress=lambda done, _: progress.update(max(first + done - start, 0)),
                plugins=[self.plugin],
            )
        after = self._state(store)
        if after.dispatched_to < end:
            raise _stopped(self.root, self.plugin, after.state, after.last_error)
        return after.dispatched_to

    def _state(self, store: Store) -> PluginState:
        return next(state for state in store.plugins() if state.name == self.plugin)

    # ------------------------------------------------------------------ in another one

    def follow(self, pid: int | None, *, waits: bool) -> CaughtUp | None:
        """Watch the plugin in the process that writes the store; None if that process has gone."""
        names = used_plugins(self.root)
        if names is None or self.plugin not in names:
            used = f"; it uses {', '.join(names)}" if names else ""
            text = (
                f"{self.root}: {_writer(pid)} has the store open, without the plugin "
                f"{self.plugin!r}{used}; add it there (Store.add_plugin), or end that process first"
            )
            raise Failure(text, ExitCode.LOCKED)
        with open_to_read(self.path) as store:
            before = self._state(store)
            end = store.log.max_physical_offset
            derives = _derives(store, self.plugin)
        reached: Callable[[], int] = self._recorded_place if derives else lambda: end
        if waits and reached() < end:
            warn(f"{_writer(pid)} has the store open; following the plugin there")
        with ProgressBar(
            f"{self.plugin}, in {_writer(pid)}", end - before.dispatched_to, "bytes"
        ) as progress:
            try:
                while waits and reached() < end:
                    progress.update(max(reached() - before.dispatched_to, 0))
                    self._check_record()
                    if not self.found.is_open:
                        return None
                    time.sleep(_POLL_S)
                is_interrupted = False
            except KeyboardInterrupt:
                is_interrupted = True
        return CaughtUp(
            self.root,
            self.plugin,
            False,
            True,
            is_interrupted,
            before.dispatched_to,
            reached(),
            end,
            progress.seconds,
        )

    def _recorded_place(self) -> int:
        return self.found.dispatched_to(self.plugin) or 0

    def _check_record(self) -> None:
        record = self.found.records.load(self.plugin)
        if record.state in (Phase.SUSPENDED, Phase.HALTED):
            raise _stopped(self.root, self.plugin, record.state, record.last_error)


def _derives(store: Store, plugin: str) -> bool:
    from reput_tools.cli.plugins.plugindocs import hooks_of  # imports pluggy

    found = store.plugin_objects.get(plugin)
    return found is not None and "reput_dispatch" in hooks_of(type(found))


def _stopped(root: str, plugin: str, state: str, error: str | None) -> Failure:
    why = f": {error}" if error else ", as it was asked to be"
    step = f"`reput resume {root} {plugin}` lets it go on"
    if state not in (Phase.SUSPENDED, Phase.HALTED):
        step = f"`reput plugins {root}` shows how the others are"
    text = f"plugin {plugin!r} is {state}{why}; {step}"
    return Failure(text, ExitCode.UNAVAILABLE)


def _not_flushed(root: str, plugin: str, reached: int, end: int) -> Failure:
    text = (
        f"plugin {plugin!r} was given all of the log, to physical offset {end}, but its files are "
        f"known to be on disk only to {reached}: it did not return from its flush in time; `reput "
        f"backfill {root} {plugin}` goes on from there"
    )
    return Failure(text, ExitCode.UNAVAILABLE)


def _writer(pid: int | None) -> str:
    return "another process" if pid is None else f"process {pid}"

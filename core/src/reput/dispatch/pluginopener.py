"""Opens and recovers one plugin: when a store is opened, or when the plugin is added or resumed.

An exception, or a call that does not return, stops only this plugin: the store goes on without it.
What its files, and the plugin, say about progress and queue offsets counts only as far as the log
confirms it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext
from reput.log.progress import Progress, ProgressEntry
from reput.log.timeruns import TimeRuns
from reput.plugin.storecontext import StateNotes, StoreContext

if TYPE_CHECKING:
    from reput.dispatch.storedpluginstates import StoredPluginState, StoredPluginStates
    from reput.files.system.disk import Disk
    from reput.log.losses import Loss
    from reput.log.reader.logreader import StoreLog
    from reput.log.recovery.endsearch import RecoveryReport
    from reput.log.statefile import StateFile
    from reput.log.writer.queueoffsets import QueueFloors
    from reput.plugin.hooktable import Hook, PluginHooks
    from reput.plugin.pluginset import PluginSet
    from reput.plugin.storeaccess import StoreAccess

logger = logging.getLogger(__name__)

OPEN_SECONDS = 120.0
"""How long a plugin may take to open and recover, which may read much of its files."""


@attrs.define(eq=False, repr=False)
class PluginOpener:
    """Opens plugins of one store."""

    root: str
    writable: bool
    log: StoreLog
    disk: Disk
    clock: Callable[[], int]
    board: RunnerContext
    records: StoredPluginStates
    state: StateFile
    access: Callable[[str], StoreAccess]
    """Returns the store as the plugin of that name may use it."""
    floors: QueueFloors
    wake: Callable[[str], None] = lambda name: None
    """Has a plugin's `reput_work` called soon."""
    renew_interest: Callable[[], None] = lambda: None
    """Asks all plugins again which messages their `reput_put` has to see."""
    note_problem: Callable[[str], None] = lambda text: None
    """Adds to the problems of a read-only store."""
    batch_topics: frozenset[str] = frozenset()
    """Topics that have batch queues."""
    lower_checkpoint: Callable[..., None] = lambda **most: None
    """Lowers fields of the checkpoint; see `PluginFlusher`. Does nothing in a read-only store."""
    _on_disk: StateFile = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.state.again(), takes_self=True)
    )
    """The state file as another process may have written it; kept, as its journal may be long."""

    def runner(self, plugins: PluginSet, name: str, record: StoredPluginState) -> PluginRunner:
        """Return the runner of a plugin of ``plugins`` that is to be opened."""
        return PluginRunner(
            self.board,
            name,
            plugins.hooks[name],
            self.log.min_physical_offset,
            frozenset(plugins.plugins[name].requires),
            record.skipped_count,
        )

    def open(
        self,
        runner: PluginRunner,
        file: ProgressEntry | None,
        progress: int,
        *,
        clean: bool,
        record: StoredPluginState,
        queue_offsets: Mapping[tuple[str, int], int] | None = None,
    ) -> BaseException | str | None:
        """Call `reput_open` and `reput_recover`; then the plugin runs, or is broken.

        Its files are known to be complete below ``progress``. With ``queue_offsets``, `reput_ready`
        is called, too; an opening of the store calls `make_ready` when it knows them.

        Returns:
            Why the plugin cannot be used; None if it can.
        """
        low, end = self.log.min_physical_offset, self.log.max_physical_offset
        if record.cut_to is not None and self.writable:
            # After a failed flush the system may have dropped pages that it could not write, but
            # shows them until the next start. For this plugin the log ends where its files are
            # valid.
            progress = max(min(progress, record.cut_to), low)
            end = min(end, progress)
        if runner.hooks.queue_offsets is not None:
            self._lower_queues(progress)
        lower = partial(self._lower_progress, file, progress)
        context = self._context(runner.name, lower, clean=clean and record.is_clean)
        hooks, position = runner.hooks, None
        error: BaseException | str | None = None
        if hooks.open is not None or hooks.recover is not None:
            position, error = self._call(
                runner.name, "reput_open", lambda: _open(hooks, context, end, progress)
            )
        if position is None:
            position = progress
        elif not isinstance(position, int) or isinstance(position, bool):
            error = f"reput_recover returned {position!r}, not an offset"
        if error is None:
            position = max(min(progress, position), low)
            # Before the first message comes again: after a crash the old progress must not stand
            # over files that were being built again.
            lower(position)
            if position < progress and runner.hooks.queue_offsets is not None:
                self._lower_queues(position)
            if queue_offsets is not None:
                error = self.make_ready(runner, queue_offsets)
        if error is None:
            runner.resume(position)
        else:
            runner.not_opened(error, record.cut_to)
        return error

    def make_ready(
        self, runner: PluginRunner, queue_offsets: Mapping[tuple[str, int], int]
    ) -> BaseException | None:
        """Call `reput_ready` of a plugin that was opened; return why it cannot be used, or None."""
        hook = runner.hooks.ready
        if hook is None:
            return None
        return self._call(runner.name, "reput_ready", lambda: hook(queue_offsets=queue_offsets))[1]

    def _call(
        self, name: str, hook: str, function: Callable[[], Any]
    ) -> tuple[Any, BaseException | None]:
        """Call a hook on the plugin's thread; return its result, or its error."""
        call = self.board.calls.request(name, hook, function)
        if not call.wait(OPEN_SECONDS):
            call.give_up()
            return None, TimeoutError(f"{hook} has not returned after {OPEN_SECONDS:g} s")
        return call.result, call.error

    def progress_of(self, name: str) -> ProgressEntry:
        """Return the progress of a plugin, in the state file that the store writes."""
        return ProgressEntry(self.state, name)

    def _lower_progress(self, file: ProgressEntry | None, progress: int, offset: int) -> None:
        if self.writable and file is not None and offset < progress:
            file.save(Progress(max(offset, self.log.min_physical_offset)))

    def _lower_queues(self, offset: int) -> None:
        """Lower the checkpoint to a place above which a plugin's queues are rebuilt.

        Otherwise a broker that takes over, if this writer is killed, dispatches from a later place,
        and readers stop where units are missing.
        """
        if self.writable and offset < self.log.max_physical_offset:
            first = self.log.store_timestamp_at(offset)
            if first < 0:  # a file ends there, or a record is damaged
                rows = (batch for batch in self.log.scan(offset) if len(batch))
                first = next((int(batch.store_timestamp[0]) for batch in rows), 0)
            self.lower_checkpoint(queues_timestamp=first, queues_offset=offset)

    def _context(
        self, name: str, lower_progress: Callable[[int], None], *, clean: bool
    ) -> StoreContext:
        return StoreContext(
            plugin=name,
            root=self.root,
            writable=self.writable,
            clean=clean,
            log=self.log,
            disk=self.disk,
            clock=self.clock,
            replica=self.log.master is not None,
            recovery="reput" if self.log.keeps_records_after_damage else "rocketmq",
            default_queue_count=self.log.config.default_queue_count,
            light_queues=self.log.config.max_light_queues > 0,
            batch_topics=self.batch_topics,
            grows=self.log.files.grows,
            recorded=ProgressEntry(self._on_disk, name).recorded,
            queue_floors=self.floors,
            time_runs=TimeRuns(self.state, is_writer=self.writable),
            notes=StateNotes(name, self.state, writable=self.writable),
            note_loss=self._note_loss,
            note_problem=self.note_problem,
            lower_progress=lower_progress,
            lower_checkpoint=self.lower_checkpoint,
            store=self.access(name),
            wake=lambda: self.wake(name),
            renew_interest=self.renew_interest,
            hide_light_queues=self.log.hide_light_queues,
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


def known_progress(
    log: StoreLog,
    file: ProgressEntry,
    clean: bool,
    recovery: RecoveryReport,
    was_reput: bool,
) -> int:
    """Return the physical offset below which a plugin's files are complete and flushed."""
    recorded = file.known()  # as the search for the log's end has read it
    if not recorded:
        if was_reput:
            return log.min_physical_offset  # new in this store: from the beginning
        # RocketMQ wrote the store: after a close everything is dispatched; after a crash all is
        # dispatched again from the file that recovery began to read at.
        return recovery.end_offset if clean else recovery.start_offset
    believable = file.believable_of(recorded, log, recovery.known)
    if believable is not None:
        if log.follows or not recovery.damages:
            return believable
        # The records of the damaged range are lost: files derived from them must go, too.
        return min(believable, recovery.damages[0].start_offset)
    if recorded[0].physical_offset > recovery.end_offset:
        return min(recovery.start_offset, recovery.end_offset)
    return log.min_physical_offset


def checked_offsets(hooks: Iterable[Hook]) -> dict[tuple[str, int], int] | None:
    """Return the first answer of `reput_queue_offsets`; None without one, or if it is wrong."""
    try:
        answer = next((found for hook in hooks if (found := hook()) is not None), None)
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        logger.error("queue offsets not known, counted instead error=%r", error)
        return None
    if answer is None:
        return None
    if not isinstance(answer, Mapping) or not all(
        isinstance(key, tuple)
        and len(key) == 2
        and isinstance(key[0], str)
        and isinstance(key[1], int)
        and isinstance(value, int)
        and value >= 0
        for key, value in answer.items()
    ):
        logger.error("queue offsets are nonsense, counted instead answer=%.200r", answer)
        return None
    return dict(answer)

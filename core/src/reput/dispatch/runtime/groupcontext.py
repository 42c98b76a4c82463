"""`GroupContext`: what read groups of a store share: the log, its end, hooks for every batch.

It also knows for which plugins callers wait and whether the log grows, by which groups pace
themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext
    from reput.log.writer.commitlog import CommitLog
    from reput.plugin.hooktable import Hook
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

_BUSY_SECONDS = 10.0  # the store counts as busy this long after its last new message


@attrs.define(eq=False, repr=False)
class GroupContext:
    """What read groups read, and what they do with records that cannot be dispatched."""

    log: CommitLog
    board: RunnerContext
    write_dead_letter: Callable[[str, DispatchBatch, BaseException], None]
    """Notes the first message of a batch durably."""
    reads_durable: bool
    """Whether only what is on disk is dispatched."""
    enrichers: list[tuple[PluginRunner, Hook]] = attrs.field(factory=list, init=False)
    arrivers: list[tuple[PluginRunner, Hook]] = attrs.field(factory=list, init=False)
    watchers: tuple[Callable[[DispatchBatch], None], ...] = attrs.field(default=(), init=False)
    """Called with messages that readers can read from now on; replaced as a whole."""
    awaited: tuple[set[str] | None, ...] = attrs.field(default=(), init=False)
    """For each waiting caller, the plugins it waits for, None for all; replaced as a whole."""
    _seen_limit: int = attrs.field(default=-1, init=False)
    _grew_at: float = attrs.field(default=-_BUSY_SECONDS, init=False)

    def use(self) -> None:
        """From the next batch on, call the hooks of the board's plugins, in their order."""
        runners = list(self.board.runners.values())
        self.enrichers = [(each, hook) for each in runners if (hook := each.hooks.enrich)]
        self.arrivers = [(each, hook) for each in runners if (hook := each.hooks.arrive)]

    # ------------------------------------------------------------------ how far, how fast

    def limit(self) -> int:
        """Return the physical offset up to which may be dispatched now: appended, or on disk."""
        limit = self.log.max_physical_offset
        if self.reads_durable:
            limit = min(self.log.flushed_offset, limit)
        if limit != self._seen_limit:
            if self._seen_limit >= 0:
                self._grew_at = time.monotonic()
            self._seen_limit = limit
        return limit

    def is_busy(self, runners: Iterable[PluginRunner]) -> bool:
        """Whether messages are arriving and no caller waits for one of ``runners``.

        If so, none of these plugins should delay another for long.
        """
        if self.board.is_stopping or time.monotonic() - self._grew_at >= _BUSY_SECONDS:
            return False
        for names in self.awaited:
            if names is None or any(runner.name in names for runner in runners):
                return False
        return True

    def begin_waiting(self, names: set[str] | None) -> None:
        """Note that a caller begins to wait for the plugins ``names``, None for all."""
        with self.board.lock:
            self.awaited = (*self.awaited, names)

    def end_waiting(self, names: set[str] | None) -> None:
        """Note that a caller no longer waits, or was interrupted before it did."""
        with self.board.lock:
            awaited = list(self.awaited)
            if names in awaited:  # else `begin_waiting` was interrupted
                awaited.remove(names)
            self.awaited = tuple(awaited)

    def watch(self, function: Callable[[DispatchBatch], None]) -> Callable[[], None]:
        """Add a function to `watchers`, which must neither wait nor raise; return how to end it."""

        def end() -> None:
            with self.board.lock:
                self.watchers = tuple(each for each in self.watchers if each is not function)

        with self.board.lock:
            self.watchers = (*self.watchers, function)
        return end

    # ------------------------------------------------------------------ what is skipped

    def dead_letter(self, runner: PluginRunner, batch: DispatchBatch, error: BaseException) -> bool:
        """Skip the one message of ``batch``, with a note in the dead-letter file, or stop.

        Returns:
            False if the plugin was stopped, as its policy says, or after too many dead letters.
        """
        if not (runner.skips and runner.may_skip):
            runner.stop(error, batch)
            return False
        try:
            self.write_dead_letter(runner.name, batch, error)
        except OSError as cause:
            logger.error("dead letter not written plugin=%s error=%s", runner.name, cause)
            runner.stop(error, batch)
            return False
        runner.skipped(batch)
        logger.warning(
            "message skipped plugin=%s physical_offset=%d error=%s",
            runner.name,
            batch.start_offset,
            error,
        )
        return True

    def skip_damage(self, batch: DispatchBatch, stop: int) -> int:
        """Note that records from the end of ``batch`` to the next valid record are lost.

        Returns:
            The physical offset of the next valid record, at most ``stop``.
        """
        damage = self.log.damage_at(batch.end_offset, stop, batch.finding)
        path, position = self.log.path_of(batch.end_offset)
        logger.error(
            "damaged log skipped file=%s position=%d skipped_size=%d reason=%s",
            path,
            position,
            damage.end_offset - batch.end_offset,
            damage.finding,
        )
        try:
            self.log.note_loss(damage)
        except OSError as error:
            logger.error("loss not noted error=%s", error)
        return damage.end_offset

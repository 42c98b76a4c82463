"""`Feed`: what read groups share: the log, its end, and the plugins that see every batch.

It knows for which plugins a caller waits and whether the log grows: groups pace themselves by that.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.dispatch.runner import Board, PluginRunner
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.host.hooktable import BatchHook, EnrichHook
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

__all__ = ["Feed", "named"]

_BUSY_SECONDS = 10.0  # how long after the last new message the next one is expected


class Feed:
    """What the groups of one store read, and what becomes of records that cannot be dispatched."""

    def __init__(
        self,
        log: CommitLog,
        board: Board,
        limit: Callable[[], int],
        write_dead_letter: Callable[[str, DispatchBatch, BaseException], None],
    ) -> None:
        """Make it for the plugins on the board.

        Args:
            log: the log to read.
            board: the plugins.
            limit: end of what may be dispatched now.
            write_dead_letter: keeps a note of the first message of a batch, durably.
        """
        self.log = log
        self.board = board
        self.process = os.getpid()
        self.enrichers: list[tuple[PluginRunner, EnrichHook]] = []
        self.arrivers: list[tuple[PluginRunner, BatchHook]] = []
        self._limit = limit
        self._write_dead_letter = write_dead_letter
        self.awaited: tuple[set[str] | None, ...] = ()
        """For each caller that waits, the plugins it waits for; None for all. Replaced whole."""
        self._seen_limit = -1
        self._grew_at = -_BUSY_SECONDS

    def use(self, names: Sequence[str]) -> None:
        """Call the hooks of these plugins from the next batch on, in this order."""
        with self.board.lock:
            self.board.sort(names)
            runners = list(self.board.runners.values())
            self.enrichers = [(each, each.hooks.enrich) for each in runners if each.hooks.enrich]
            self.arrivers = [(each, each.hooks.arrive) for each in runners if each.hooks.arrive]

    # ------------------------------------------------------------------ how far, how fast

    @property
    def is_over(self) -> bool:
        """Whether the store closes, so that no further round is made."""
        return self.board.is_stopping

    def limit(self) -> int:
        """Physical offset up to which may be dispatched now."""
        limit = self._limit()
        if limit != self._seen_limit:
            if self._seen_limit >= 0:
                self._grew_at = time.monotonic()
            self._seen_limit = limit
        return limit

    def is_busy(self, runners: Iterable[PluginRunner]) -> bool:
        """Whether messages are arriving and no caller waits for one of these plugins.

        Then none of them should delay another for long.
        """
        if self.is_over or time.monotonic() - self._grew_at >= _BUSY_SECONDS:
            return False
        return not any(named(runners, names) for names in self.awaited)

    def begin_waiting(self, names: set[str] | None) -> None:
        """Take note of a caller that waits for these plugins, or, with None, for all."""
        with self.board.lock:
            self.awaited = (*self.awaited, names)

    def end_waiting(self, names: set[str] | None) -> None:
        """Take note that a caller does not wait any more, or was interrupted before it did."""
        with self.board.lock:
            awaited = list(self.awaited)
            if names in awaited:  # else an interrupt came first
                awaited.remove(names)
            self.awaited = tuple(awaited)

    # ------------------------------------------------------------------ what is passed over

    def dead_letter(self, each: PluginRunner, batch: DispatchBatch, error: BaseException) -> bool:
        """Pass over the one message of ``batch``, and note it down.

        Returns:
            False when the plugin stops there instead.
        """
        if not each.may_skip:
            each.fail(error)
            return False
        try:
            self._write_dead_letter(each.name, batch, error)
        except OSError as cause:
            logger.error("dead letter not written plugin=%s error=%s", each.name, cause)
            each.fail(error)
            return False
        each.skipped(batch)
        logger.warning(
            "message skipped plugin=%s physical_offset=%d error=%s",
            each.name,
            batch.start_offset,
            error,
        )
        return True

    def skip_damage(self, batch: DispatchBatch, stop: int) -> int:
        """Note that the records from the end of ``batch`` to the next sound one are lost.

        Returns:
            The offset of the next record, at most ``stop``.
        """
        hole = self.log.hole_at(batch.end_offset, stop, batch.finding)
        path, position = self.log.path_of(batch.end_offset)
        logger.error(
            "damaged log skipped file=%s position=%d skipped_size=%d reason=%s",
            path,
            position,
            hole.end_offset - batch.end_offset,
            hole.finding,
        )
        try:
            self.log.note_loss(batch.end_offset, hole.end_offset, batch.finding, hole)
        except OSError as error:
            logger.error("loss not noted error=%s", error)
        return hole.end_offset


def named(runners: Iterable[PluginRunner], names: set[str] | None) -> list[PluginRunner]:
    """The plugins that have one of these names, or, with None, all."""
    return [each for each in runners if names is None or each.name in names]

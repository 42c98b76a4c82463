"""The reput loop: reads the log again and hands it, in batches, to the plugins.

Every plugin has a place of its own in the log. What a plugin does wrong stops only itself: one that
fails is tried again and then suspended (or its message skipped, or everything halted, as its policy
says), and one that does not return is left to itself. Whether a plugin runs is decided by
`reput.dispatch.runner`, how batches are cut and handed out by `reput.dispatch.lane`; here plugins
are added and removed, and callers wait for them.

Source: RocketMQ ``ReputMessageService``, which has one place for all dispatchers, and tries a
message on which one fails again for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reput.dispatch.feed import Feed
from reput.dispatch.lanes import Lanes
from reput.dispatch.runner import text_of
from reput.errors import ReputError

if TYPE_CHECKING:
    from reput.dispatch.runner import Board, PluginRunner
    from reput.log.writing.commitlog import CommitLog
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

__all__ = ["ReputLoop"]

_LONGEST_WAIT = 1.0  # seconds; then a waiting caller looks for itself


class ReputLoop:
    """Drives the plugins of one store, on threads of its own or step by step."""

    def __init__(
        self,
        log: CommitLog,
        board: Board,
        limit: Callable[[], int],
        write_dead_letter: Callable[[str, DispatchBatch, BaseException], None],
        *,
        threads: bool = True,
    ) -> None:
        """Make the loop; nothing runs yet.

        Args:
            log: the log to read.
            board: the plugins.
            limit: end of what may be dispatched now.
            write_dead_letter: keeps a note of the first message of a batch, durably.
            threads: whether `start` starts any.
        """
        self.board = board
        self.feed = Feed(log, board, limit, write_dead_letter)
        self.lanes = Lanes(self.feed, list(board.runners.values()))
        self._threads = threads
        board.listen(self.wake)

    def use(self, names: Sequence[str]) -> None:
        """Call the hooks of these plugins from the next batch on, in this order."""
        with self.board.lock:
            self.feed.use(names)
            self.lanes.main.sort(names)
        self.wake()

    # ------------------------------------------------------------------ how far they are

    def limit(self) -> int:
        """Physical offset up to which may be dispatched now."""
        return self.feed.limit()

    def _counted(self, names: set[str] | None) -> list[PluginRunner]:
        """The plugins of ``names``, None for all, for which it makes sense to wait."""
        runners = self.board.runners.values()
        return [
            each for each in runners if names is None or each.name in names if each.wants_messages
        ]

    def unread(self, each: PluginRunner) -> str | None:
        """Why the log cannot be read for a plugin, which waits for that; None while it can."""
        with self.board.lock:
            lane = self.lanes.lane_of(each)
        error = None if lane is None else lane.read_error
        return None if error is None else f"the log cannot be read: {text_of(error)}"

    def _reading_failure(self, names: set[str] | None) -> Exception | None:
        """Why the log cannot be read for one of these plugins, also when tried again and again."""
        limit = self.board.config.retry_count
        for lane in self.lanes.all:
            concerned = any(names is None or each.name in names for each in lane.runners)
            if concerned and lane.read_failures > limit:
                return lane.read_error
        return None

    # ------------------------------------------------------------------ plugins that come and go

    def resume(self, name: str, position: int) -> None:
        """Give a plugin messages again, from ``position`` on."""
        with self.board.lock:
            each = self.board.runners[name]
            self.lanes.move_to_main(each)
            each.resume(position)

    def add(self, each: PluginRunner) -> None:
        """Drive one plugin more; call `use` with the whole set then."""
        with self.board.lock:
            self.board.add(each)
            self.lanes.move_to_main(each)

    def remove(self, name: str) -> PluginRunner:
        """Drive a plugin no more, which is in no call; call `use` with the others then."""
        with self.board.lock:
            each = self.board.remove(name)
            self.lanes.remove(each)
            return each

    # ------------------------------------------------------------------ running

    def step(self) -> bool:
        """Give every plugin that is behind one batch; whether there was any."""
        return self.lanes.main.step()

    def start(self) -> None:
        """Run on threads of its own until `stop`."""
        if self._threads:
            self.lanes.start()

    def stop(self) -> None:
        """End the threads when their rounds are done; one that is stuck in a plugin is left."""
        self.board.stop()
        self.feed.hurry.set()
        self.lanes.stop()

    def wake(self) -> None:
        """There may be something to do."""
        self.lanes.wake()

    # ------------------------------------------------------------------ waiting

    def finish(self, timeout: float) -> bool:
        """Bring all plugins to the end for the last time: none is tried again later."""
        self.board.finish()
        self.wake()
        try:
            return self.wait(self.feed.log.max_physical_offset, timeout)
        except (OSError, ReputError) as error:
            # No reason to leave the rest undone: every plugin keeps the place that it has.
            logger.error("dispatching not finished error=%s", error)
            return False

    def wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None = None,
        names: set[str] | None = None,
    ) -> bool:
        """Wait until every running plugin has seen everything below ``physical_offset``.

        Args:
            physical_offset: the end to wait for.
            timeout: seconds; None waits for ever.
            progress: called now and then with the offset reached, on this thread.
            names: plugins to wait for; all when left out.

        Raises:
            OSError: the log cannot be read, again and again.
            CorruptFileError: a file of it was changed by others.
        """
        try:
            self.feed.begin_waiting(names)
            self.lanes.release()
            return self._wait(physical_offset, timeout, progress, names)
        finally:
            self.feed.end_waiting(names)

    def _wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None,
        names: set[str] | None,
    ) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout

        def reached() -> int:
            positions = [each.position for each in self._counted(names)]
            return min(positions, default=physical_offset)

        while reached() < physical_offset:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            failure = self._reading_failure(names)
            if failure is not None:
                raise failure
            if progress is not None:
                progress(reached())
            if self.lanes.main.thread is None:
                if self.lanes.main.is_stepping_here:
                    return False
                if not self.step():
                    self.lanes.main.sleep_to_retry()
                continue
            moved = self.board.moved
            if reached() < physical_offset:
                longest = _LONGEST_WAIT if progress is None else 0.1
                moved.wait(longest if left is None else min(left, longest))
        if progress is not None:
            progress(min(reached(), physical_offset))
        return True

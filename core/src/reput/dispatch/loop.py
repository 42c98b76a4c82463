"""The reput loop: reads the log again and hands it, in batches, to the plugins.

Every plugin has a place of its own in the log. What a plugin does wrong stops only itself: one that
fails is tried again and then suspended (or its message skipped, or everything halted, as its policy
says), and one that does not return is left to itself. How batches are cut and handed out is the
work of `reput.dispatch.lane`; here is who runs, who does not, and why.

Source: RocketMQ ``ReputMessageService``, which has one place for all dispatchers, and tries a
message on which one fails again for ever.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reput.dispatch.lanes import Lanes
from reput.dispatch.phase import Phase
from reput.dispatch.runner import text_of
from reput.errors import ReputError
from reput.flags import Flag

if TYPE_CHECKING:
    from reput.dispatch.lane import Lane
    from reput.dispatch.runner import Board, PluginRunner
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.host.hooktable import BatchHook, EnrichHook
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

__all__ = ["ReputLoop"]

_BUSY_SECONDS = 10.0  # how long after the last new message the next one is expected
_LONGEST_WAIT = 1.0  # seconds; then who waits looks for itself


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
        self.log = log
        self.board = board
        self.process = os.getpid()
        self.hurry = Flag()
        """Set while somebody waits for the loop, which then makes no pauses."""
        self.enrichers: list[tuple[PluginRunner, EnrichHook]] = []
        self.arrivers: list[tuple[PluginRunner, BatchHook]] = []
        self._limit = limit
        self._threads = threads
        self._write_dead_letter = write_dead_letter
        self._awaited: list[set[str] | None] = []
        """Whom those who wait are waiting for; None: for everybody."""
        self._unread: dict[Lane, Exception] = {}
        """Lanes for which the log could not be read, and why."""
        self._seen_limit = -1
        self._grew_at = -_BUSY_SECONDS
        self.lanes = Lanes(self, list(board.runners.values()))
        board.listen(self.wake)

    def use(self, names: Sequence[str]) -> None:
        """Call the hooks of these plugins from the next batch on, in this order."""
        with self.board.lock:
            self.board.sort(names)
            runners = list(self.board.runners.values())
            self.enrichers = [(each, each.hooks.enrich) for each in runners if each.hooks.enrich]
            self.arrivers = [(each, each.hooks.arrive) for each in runners if each.hooks.arrive]
            self.lanes.main.sort(names)
        self.wake()

    # ------------------------------------------------------------------ where everybody stands

    @property
    def stopping(self) -> bool:
        """Whether the loop ends."""
        return self.board.is_stopping

    def limit(self) -> int:
        """Physical offset up to which may be dispatched now."""
        limit = self._limit()
        if limit != self._seen_limit:
            if self._seen_limit >= 0:
                self._grew_at = time.monotonic()
            self._seen_limit = limit
        return limit

    def is_busy(self) -> bool:
        """Whether messages are arriving, so that nobody should be long in anybody's way."""
        return self._is_growing and not self.hurry.is_set()

    @property
    def _is_growing(self) -> bool:
        return time.monotonic() - self._grew_at < _BUSY_SECONDS

    def is_throttled(self, each: PluginRunner) -> bool:
        """Whether a slow plugin leaves the processor to the others: nobody waits for it."""
        awaited = any(names is None or each.name in names for names in list(self._awaited))
        return self._is_growing and not awaited and not self.stopping

    @property
    def dispatched_offset(self) -> int:
        """Physical offset below which every running plugin has seen everything."""
        positions = [each.position for each in self._counted(None)]
        return min(positions, default=self._limit())

    def _counted(self, names: set[str] | None) -> list[PluginRunner]:
        """Those for whom it makes sense to wait."""
        runners = self.board.runners.values()
        return [
            each for each in runners if names is None or each.name in names if each.wants_messages
        ]

    def failure_of(self, name: str) -> str | None:
        """Why a plugin does not run; None while it does."""
        each = self.board.runners.get(name)
        if each is None or each.is_active:
            return None
        return each.last_error or each.phase.shown

    def seconds_to_retry(self, lane: Lane) -> float | None:
        """How long a lane may sleep at most."""
        times = [each.retry_at for each in lane.runners if each.phase is Phase.RETRYING]
        return max(min(times) - self.board.now(), 0.001) if times else None

    # ------------------------------------------------------------------ what goes wrong

    def dead_letter(self, each: PluginRunner, batch: DispatchBatch, error: BaseException) -> bool:
        """Pass over the one message of ``batch``; False when the plugin stops there instead."""
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

    def resume(self, name: str, position: int) -> None:
        """Give a plugin messages again, from ``position`` on."""
        with self.board.lock:
            each = self.board.runners[name]
            self.lanes.move_to_main(each)
            each.resume(position)

    def reading_failed(self, lane: Lane, error: Exception) -> float:
        """Take note that the log cannot be read for the plugins of a lane.

        Returns:
            Seconds until it is to be tried again.
        """
        lane.read_failures += 1
        pause = self.board.config.pause_seconds(lane.read_failures)
        with self.board.lock:
            self._unread[lane] = error
        logger.error(
            "log not read, tried again attempt=%d pause_s=%g",
            lane.read_failures,
            pause,
            exc_info=error,
        )
        self.board.changed.set()
        self.board.notify_moved()
        return pause

    def reading_works(self, lane: Lane) -> None:
        """Take note that the log can be read again."""
        lane.read_failures = 0
        with self.board.lock:
            self._unread.pop(lane, None)

    def unread(self, each: PluginRunner) -> str | None:
        """Why the log cannot be read for a plugin, which waits for that; None while it can."""
        with self.board.lock:
            lane = self.lanes.lane_of(each)
            error = None if lane is None else self._unread.get(lane)
        if error is None:
            return None
        return f"the log cannot be read: {text_of(error)}"

    def _reading_failure(self, names: set[str] | None) -> Exception | None:
        """Why the log cannot be read for one of these plugins, also when tried again and again."""
        with self.board.lock:
            for lane, error in self._unread.items():
                concerned = any(names is None or each.name in names for each in lane.runners)
                if concerned and lane.read_failures > self.board.config.retry_count:
                    return error
        return None

    def skip_damage(self, batch: DispatchBatch, stop: int) -> int:
        """Next offset at which a record begins behind damage; everything between is lost."""
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

    # ------------------------------------------------------------------ plugins that come and go

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
        self.hurry.set()
        self.lanes.stop()

    def wake(self) -> None:
        """There may be something to do."""
        self.lanes.wake()

    # ------------------------------------------------------------------ waiting

    def finish(self, timeout: float) -> bool:
        """Bring everybody to the end for the last time: nobody is tried again later."""
        self.board.finish()
        self.wake()
        try:
            return self.wait(self.log.max_physical_offset, timeout)
        except (OSError, ReputError) as error:
            # No reason to leave the rest undone: everybody keeps the place that it has.
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
            with self.board.lock:
                self._awaited.append(names)
            self.hurry.set()
            self.lanes.release()
            return self._wait(physical_offset, timeout, progress, names)
        finally:
            with self.board.lock:
                if names in self._awaited:  # else an interrupt came first
                    self._awaited.remove(names)
                if not self._awaited and not self.stopping:
                    self.hurry.clear()

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

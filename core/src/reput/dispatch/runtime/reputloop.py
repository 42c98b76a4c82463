"""`ReputLoop`: reads the log again and dispatches it, in batches, to the plugins.

Every plugin has its own place in the log. A failure stops only the plugin that it comes from: it is
retried and then suspended (or its message is skipped, or everything is halted, as its policy says),
and a call that does not return is abandoned. `reput.dispatch.runtime.pluginrunner` decides whether
a plugin runs, `reput.dispatch.runtime.readgroup` reads and dispatches batches; this module gives
groups their threads, moves plugins between groups, and lets callers wait for plugins.

Source: RocketMQ ``ReputMessageService``, which has one place for all dispatchers, and retries a
message on which one fails without end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from reput.dispatch.runtime.pluginflusher import called_inside
from reput.dispatch.runtime.pluginrunner import text_of
from reput.dispatch.runtime.pluginstate import Phase
from reput.dispatch.runtime.readgroup import LONGEST_REST, ReadGroup
from reput.errors import ReputError
from reput.signalsafe import PeriodicThread, is_any_held_here

if TYPE_CHECKING:
    from reput.dispatch.runtime.groupcontext import GroupContext
    from reput.dispatch.runtime.pluginrunner import PluginRunner

logger = logging.getLogger(__name__)

_LONG_ROUND: Final = 0.002  # seconds; a round with a plugin that holds up others takes longer


class ReputLoop:
    """Dispatches to the plugins of one store, on threads of its own or step by step."""

    def __init__(self, feed: GroupContext, *, threads: bool = True) -> None:
        """Make the loop; nothing runs yet."""
        self.feed, self.board = feed, feed.board
        self.shared = ReadGroup(feed, is_shared=True)
        self.own: list[ReadGroup] = []
        """Groups of single plugins."""
        self._threads = threads
        self._watch: PeriodicThread | None = None
        self.board.listen(self.wake)

    def unread(self, runner: PluginRunner) -> str | None:
        """Return why the log cannot be read for a plugin; None if it can."""
        error = None if runner.group is None else runner.group.read_error
        return None if error is None else f"the log cannot be read: {text_of(error)}"

    # ------------------------------------------------------------------ members

    def use(self, runners: Mapping[str, PluginRunner]) -> None:
        """From the next batch on, dispatch to these plugins and no others, in this order.

        A plugin that is left out must be in no call.
        """
        board = self.board
        with board.lock:
            for runner in board.runners.values():
                if runners.get(runner.name) is not runner:
                    runner.group = None
            for runner in runners.values():
                runner.group = runner.group or self.shared
            board.runners = dict(runners)
            self.feed.use()
            self.wake()
            self._leave_empty()

    def _leave_empty(self) -> None:
        """Forget the groups without a plugin, whose threads end."""
        self.own = [group for group in self.own if group.runners]

    def _join(self, group: ReadGroup) -> bool:
        """Move quick plugins of ``group`` to the shared one; return whether ``group`` is empty."""
        with self.board.lock:
            limit, is_moved = self.feed.limit(), False
            for runner in group.runners:
                is_quick = runner.phase is Phase.RUNNING and runner.figures.is_quick
                if is_quick and runner.position >= limit:
                    runner.group, is_moved = self.shared, True
            if is_moved:  # each group asks this when it is idle: two would wake each other for ever
                self.wake()
                self._leave_empty()
            return not group.runners

    def _handle_stalls(self) -> bool:
        """Mark every plugin that does not return from a call as stalled."""
        with self.board.lock:
            for call in self.board.calls.running():
                runner = self.board.runners.get(call.plugin)
                if runner is not None:
                    runner.mark_if_stalled(call)
            runner = self.shared.find_stalled()
            if runner is not None:  # it keeps the thread, and the others get a new one
                stuck, self.shared = self.shared, ReadGroup(self.feed, is_shared=True)
                for other in stuck.runners:
                    other.group = self.shared
                runner.group, stuck.is_shared = stuck, False
                self.own.append(stuck)
            if self.shared.thread is None and not self.board.is_stopping:
                self._start(self.shared, "reput-loop")
        return True

    def _split_slow(self) -> None:
        """Split plugins that hold up others into groups with threads of their own.

        The shared group's thread does it between two rounds: a plugin that is always busy is inside
        of a call at nearly every other moment.
        """
        members, call = self.shared.runners, self.shared.call
        if len([runner for runner in members if runner.hooks.dispatch and runner.may_run]) < 2:
            return
        for runner in members:
            inside = call is not None and call.plugin == runner.name  # of a caller that waits
            if runner.phase is Phase.RUNNING and not inside and runner.figures.is_slow:
                runner.figures.forget_times()
                runner.group = group = ReadGroup(self.feed, is_shared=False)
                if self._start(group, f"reput-loop-{runner.name}"):
                    self.own.append(group)
                    logger.info("slow plugin split from the others plugin=%s", runner.name)
                else:
                    runner.group = self.shared

    # ------------------------------------------------------------------ running

    def start(self) -> None:
        """Run on threads of its own until `stop`."""
        if self._threads:
            self._start(self.shared, "reput-loop")
            seconds = min(self.board.stall_seconds / 4, LONGEST_REST)
            self._watch = PeriodicThread("reput-watch", seconds, self._handle_stalls)
            self._watch.start()

    def _start(self, group: ReadGroup, name: str) -> bool:
        thread = threading.Thread(target=self._run, args=(group,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # a limit on processes; meanwhile waiting callers step
            logger.warning("no thread to dispatch on, tried again error=%s", error)
            return False
        group.thread = thread
        return True

    def _run(self, group: ReadGroup) -> None:
        while not self.board.is_stopping and (group.is_shared or group.runners):
            used, began = time.thread_time(), time.monotonic()
            try:
                is_done = group.step()
            except Exception as error:
                group.reading_failed(error)
                continue
            if is_done:
                if group.is_shared and time.monotonic() - began > _LONG_ROUND:
                    with self.board.lock:
                        self._split_slow()
                group.rest(time.thread_time() - used)
            elif group.is_shared or not self._join(group):
                self._sleep(group)
        group.close()

    def _sleep(self, group: ReadGroup) -> None:
        group.awake.clear()
        # First ask to be woken, then check again: so an append in between is not missed.
        self.feed.log.ask_to_wake(self.wake)
        if not group.has_work() and not self.board.is_stopping:
            group.awake.wait(group.seconds_to_retry())

    def stop(self) -> None:
        """End the threads after their rounds; abandon a thread that is stuck in a plugin."""
        self.board.is_stopping = True
        try:
            self.wake()
            limit = time.monotonic() + self.board.stall_seconds + 2 * LONGEST_REST
            with self.board.lock:
                groups = self.shared, *self.own
            for group in groups:
                while group.thread is not None and group.thread.is_alive():
                    group.thread.join(0.05)
                    if group.find_stalled() is not None or time.monotonic() > limit:
                        break
                else:
                    group.close()
        except BaseException:  # Ctrl-C: a thread that sleeps does not end by itself
            self.wake()
            raise
        finally:
            # The watch is stopped last, as it notices threads that are stuck.
            if self._watch is not None:
                self._watch.stop()

    def wake(self) -> None:
        """Wake all groups: there may be work, or a caller that waits."""
        for group in (self.shared, *self.own):
            group.awake.set()

    # ------------------------------------------------------------------ waiting

    def finish(self, timeout: float) -> bool:
        """Bring all plugins to the log's end for the last time, without later retries."""
        self.board.is_finishing = True
        try:
            return self.wait(self.feed.log.max_physical_offset, timeout)
        except (OSError, ReputError) as error:
            # Closing goes on nevertheless: every plugin keeps its place.
            logger.error("dispatching not finished error=%s", error)
            return False

    def stopped_below(self, physical_offset: int, names: set[str] | None) -> list[str]:
        """Return plugins that have not seen everything below an offset, and get no messages."""
        return [
            runner.name
            for runner in self.board.runners.values()
            if runner.place.position < physical_offset
            and (names is None or runner.name in names)
            and runner.hooks.dispatch is not None
            and not runner.may_run
        ]

    def wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None = None,
        names: set[str] | None = None,
    ) -> bool:
        """Wait until every running plugin has seen everything below ``physical_offset``.

        Returns:
            False after ``timeout``.

        Raises:
            OSError: the log cannot be read, even after retries.
            CorruptFileError: another program changed a file of the log.
            ServiceNotAvailableError: see `called_inside`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout

        def is_awaited(runner: PluginRunner) -> bool:
            is_named = names is None or runner.name in names
            return is_named and runner.hooks.dispatch is not None and runner.may_run

        def reached() -> int:
            low = physical_offset
            for runner in self.board.runners.values():
                if runner.place.position < low and is_awaited(runner):
                    low = runner.place.position
            return low

        if (low := reached()) == physical_offset:  # no group has to wake
            if progress is not None:
                progress(physical_offset)
            return True
        if self.shared.thread is not None:
            steps = [group.step_lock for group in (self.shared, *self.own)]
            if is_any_held_here(*steps):
                raise called_inside("wait_dispatched")
        try:
            self.feed.begin_waiting(names)
            self.wake()
            while low < physical_offset:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                for group in (self.shared, *self.own):
                    error = group.unreadable
                    if error is not None and any(is_awaited(runner) for runner in group.runners):
                        raise error
                if progress is not None:
                    progress(low)
                if self.shared.thread is not None:
                    longest = LONGEST_REST if progress is None else 0.1
                    moved = self.board.moved
                    if reached() < physical_offset:
                        moved.wait(longest if left is None else min(left, longest))
                elif self.shared.is_stepping_here:
                    return False
                elif not self.shared.step():
                    self.shared.awake.wait(self.shared.seconds_to_retry() or 0)
                low = reached()
            if progress is not None:
                progress(physical_offset)
            return True
        finally:
            self.feed.end_waiting(names)

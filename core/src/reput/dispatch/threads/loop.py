"""`ReputLoop`: reads the log again and dispatches it, in batches, to the plugins.

Every plugin has its own place in the log. A failure stops only the plugin that it comes from: it is
retried and then suspended (or its message is skipped, or everything is halted, as its policy says),
and a call that does not return is abandoned. `reput.dispatch.running.runner` decides whether a
plugin runs, `reput.dispatch.threads.group` reads and dispatches batches; this module gives groups
their threads, moves plugins between groups, and lets callers wait for plugins.

Source: RocketMQ ``ReputMessageService``, which has one place for all dispatchers, and retries a
message on which one fails without end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reput.dispatch.running.phase import Phase
from reput.dispatch.running.runner import text_of
from reput.dispatch.threads.feed import Feed
from reput.dispatch.threads.group import LONGEST_REST, ReadGroup
from reput.errors import ReputError
from reput.flags import Flag

if TYPE_CHECKING:
    from reput.dispatch.running.runner import Board, PluginRunner
    from reput.log.writing.commitlog import CommitLog
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

__all__ = ["ReputLoop"]


class ReputLoop:
    """Dispatches to the plugins of one store, on threads of its own or step by step."""

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
            limit: returns the physical offset up to which may be dispatched now.
            write_dead_letter: notes the first message of a batch durably.
            threads: whether `start` starts threads.
        """
        self.board = board
        self.feed = Feed(log, board, limit, write_dead_letter)
        self.shared = ReadGroup(self.feed, list(board.runners.values()), is_shared=True)
        self.own: list[ReadGroup] = []
        """Groups of single plugins. Groups change their members under the board's lock."""
        self._threads = threads
        self._stop = Flag()
        self._watcher: threading.Thread | None = None
        board.listen(self.wake)

    @property
    def groups(self) -> list[ReadGroup]:
        """The shared group, and those of single plugins."""
        return [self.shared, *self.own]

    # ------------------------------------------------------------------ how far

    def limit(self) -> int:
        """Return the physical offset up to which may be dispatched now."""
        return self.feed.limit()

    def unread(self, each: PluginRunner) -> str | None:
        """Return why the log cannot be read for a plugin; None if it can."""
        errors = (group.read_error for group in self.groups if each in group.runners)
        error = next(errors, None)
        return None if error is None else f"the log cannot be read: {text_of(error)}"

    # ------------------------------------------------------------------ adding and removing

    def use(self, names: Sequence[str]) -> None:
        """From the next batch on, call the hooks of the plugins ``names``, in this order."""
        self.feed.use(names)
        self.wake()

    def resume(self, name: str, position: int) -> None:
        """Give a plugin messages again, from ``position`` on."""
        with self.board.lock:
            each = self.board.runners[name]
            self._share(each)
            each.resume(position)

    def add(self, each: PluginRunner) -> None:
        """Add a plugin; the caller then calls `use` with all names."""
        with self.board.lock:
            self.board.add(each)
            self._share(each)

    def remove(self, name: str) -> PluginRunner:
        """Remove a plugin that is in no call; the caller then calls `use` with all names."""
        with self.board.lock:
            each = self.board.remove(name)
            self._take_out(each)
            return each

    # ------------------------------------------------------------------ split and join

    def _share(self, each: PluginRunner) -> None:
        """Move a plugin to the shared group."""
        if each not in self.shared.runners:
            self._take_out(each)
            self.shared.runners = [*self.shared.runners, each]
            self.shared.awake.set()

    def _take_out(self, each: PluginRunner) -> None:
        for group in self.groups:
            if each in group.runners:
                group.runners = _without(each, group.runners)
                group.awake.set()
        self.own = [group for group in self.own if group.runners]

    def _join(self, group: ReadGroup) -> bool:
        """Move quick plugins of ``group`` to the shared one; return whether ``group`` is empty."""
        with self.board.lock:
            limit = self.feed.limit()
            for each in group.runners:
                is_quick = each.phase is Phase.RUNNING and each.figures.is_quick
                if is_quick and each.position >= limit:
                    self._share(each)
            return not group.runners

    def _watch(self) -> None:
        """Look periodically for plugins that do not return from a call, or delay others."""
        while not self._stop.wait(min(self.board.stall_seconds / 4, LONGEST_REST)):
            with self.board.lock:
                self.board.look_for_stalls()
                each = self.shared.stuck_in()
                if each is not None:  # it keeps the thread, and the others get a new one
                    stuck, others = self.shared, _without(each, self.shared.runners)
                    self.own.append(stuck)
                    self.shared = ReadGroup(self.feed, others, is_shared=True)
                    stuck.runners, stuck.is_shared = [each], False
                if self.shared.thread is None and not self.feed.is_over:
                    self._start(self.shared)
                self._split_slow()

    def _split_slow(self) -> None:
        """Split plugins that hold up others into groups with threads of their own."""
        members, call = self.shared.runners, self.shared.call
        if len([each for each in members if each.wants_messages]) < 2:
            return
        for each in members:
            inside = call is not None and call.plugin == each.name
            if each.phase is Phase.RUNNING and not inside and each.figures.is_slow:
                each.figures.forget_times()
                group = ReadGroup(self.feed, [each], is_shared=False)
                if self._start(group):  # else the plugin stays in the shared group
                    self.shared.runners = _without(each, self.shared.runners)
                    self.own.append(group)
                    logger.info("slow plugin split from the others plugin=%s", each.name)

    # ------------------------------------------------------------------ running

    def step(self) -> bool:
        """Dispatch one batch to every plugin that is behind; return whether there was any."""
        return self.shared.step()

    def start(self) -> None:
        """Run on threads of its own until `stop`."""
        if self._threads:
            self._start(self.shared)
            watcher = threading.Thread(target=self._watch, name="reput-watch", daemon=True)
            watcher.start()
            self._watcher = watcher

    def _start(self, group: ReadGroup) -> bool:
        name = "reput-loop" if group.is_shared else f"reput-loop-{group.runners[0].name}"
        thread = threading.Thread(target=self._run, args=(group,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # a limit on processes; meanwhile waiting callers step
            logger.warning("no thread to dispatch on, tried again error=%s", error)
            return False
        group.thread = thread
        return True

    def _run(self, group: ReadGroup) -> None:
        while not self.feed.is_over and (group.is_shared or group.runners):
            used = time.thread_time()
            try:
                is_done = group.step()
            except Exception as error:
                group.reading_failed(error)
                continue
            if is_done:
                group.rest(time.thread_time() - used)
            elif group.is_shared or not self._join(group):
                self._sleep(group)
        group.close()

    def _sleep(self, group: ReadGroup) -> None:
        group.awake.clear()
        # First ask to be woken, then check again: so an append in between is not missed.
        self.feed.log.ask_to_wake(self.wake)
        if not group.has_work() and not self.feed.is_over:
            group.awake.wait(group.seconds_to_retry())

    def stop(self) -> None:
        """End the threads after their rounds; abandon a thread that is stuck in a plugin."""
        self.board.stop()
        self.wake()
        limit = time.monotonic() + self.board.stall_seconds + 2 * LONGEST_REST
        with self.board.lock:
            groups = self.groups
        for group in groups:
            while group.thread is not None and group.thread.is_alive():
                group.thread.join(0.05)
                if group.stuck_in() is not None or time.monotonic() > limit:
                    break
            else:
                group.close()
        # The watch is stopped last, as it notices threads that are stuck.
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None

    def wake(self) -> None:
        """Wake all groups: there may be work, or a caller that waits."""
        for group in self.groups:
            group.awake.set()

    # ------------------------------------------------------------------ waiting

    def finish(self, timeout: float) -> bool:
        """Bring all plugins to the log's end for the last time, without later retries."""
        self.board.finish()
        self.wake()
        try:
            return self.wait(self.feed.log.max_physical_offset, timeout)
        except (OSError, ReputError) as error:
            # Closing goes on nevertheless: every plugin keeps its place.
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
            physical_offset: the offset to wait for.
            timeout: seconds; None waits without limit.
            progress: called now and then with the offset reached, on this thread.
            names: plugins to wait for; all when left out.

        Returns:
            False after ``timeout``.

        Raises:
            OSError: the log cannot be read, even after retries.
            CorruptFileError: another program changed a file of the log.
        """
        deadline = None if timeout is None else time.monotonic() + timeout

        def is_awaited(each: PluginRunner) -> bool:
            return names is None or each.name in names

        def reached() -> int:
            lowest = physical_offset
            for each in self.board.runners.values():
                if is_awaited(each) and each.wants_messages:
                    lowest = min(lowest, each.place.position)
            return lowest

        try:
            self.feed.begin_waiting(names)
            self.wake()
            while reached() < physical_offset:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                for group in self.groups:
                    error = group.unreadable
                    if error is not None and any(is_awaited(each) for each in group.runners):
                        raise error
                if progress is not None:
                    progress(reached())
                if self.shared.thread is not None:
                    longest = LONGEST_REST if progress is None else 0.1
                    moved = self.board.moved
                    if reached() < physical_offset:
                        moved.wait(longest if left is None else min(left, longest))
                elif self.shared.is_stepping_here:
                    return False
                elif not self.step():
                    self.shared.awake.wait(self.shared.seconds_to_retry() or 0)
            if progress is not None:
                progress(min(reached(), physical_offset))
            return True
        finally:
            self.feed.end_waiting(names)


def _without(each: PluginRunner, runners: list[PluginRunner]) -> list[PluginRunner]:
    return [other for other in runners if other is not each]

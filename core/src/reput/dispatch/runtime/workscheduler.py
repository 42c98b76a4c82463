"""`WorkScheduler`: run work that is due by the clock, each plugin's on the plugin's thread.

A plugin that delivers, checks back or compacts does so in its hook `reput_work`, in slices, and
returns when it must be called again. Between two calls its thread makes other calls of the plugin,
as flushes, or sleeps, until a dispatch or a user's request wakes it.

The store's clock may jump either way, so a thread that waits for a time sleeps a second at most.
When the clock was set back, the work is called: only the plugin knows what is due now.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput.dispatch.config import Retries
from reput.dispatch.runtime.hookcalls import is_users_interrupt
from reput.errors import StoreClosedError

if TYPE_CHECKING:
    from reput.dispatch.runtime.hookcalls import Call
    from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext

logger = logging.getLogger(__name__)

_HOOK: Final = "reput_work"
_LONGEST_SLEEP: Final = 1.0  # seconds until a jump of the clock is noticed
_AT_ONCE: Final = -1  # a time before any clock's


@attrs.define(eq=False, repr=False)
class TimedWork:
    """The work of one plugin, and when it is due."""

    runner: PluginRunner
    board: RunnerContext
    clock: Callable[[], int]
    retries: Retries
    due: int | None = _AT_ONCE
    is_woken: bool = False
    last: int = _AT_ONCE
    """What the clock showed when the work was looked at last, ms."""
    is_over: bool = False
    """Whether it is not called any more, as the store closes or the plugin was removed."""

    @property
    def may_run(self) -> bool:
        """Whether the plugin runs."""
        return not self.is_over and self.runner.may_run

    @property
    def next_due(self) -> int | None:
        """When the next call is due, ms; None if it waits for no time, or may not run."""
        if not self.may_run:
            return None
        return self.clock() if self.is_woken or self.due == _AT_ONCE else self.due

    @property
    def is_due(self) -> bool:
        """Whether it is to be called now, if the plugin runs."""
        if self.retries.count:
            return self.retries.at <= self.board.now()
        return self.is_woken or (self.due is not None and self.due <= self.clock())

    def work(self) -> float | None:
        """Request a call if one is due; return how long the thread may sleep, None for any time."""
        if self.is_over:
            return None
        before, self.last = self.last, self.clock()
        if self.last < before:  # not by `|=`, which would undo what another thread sets meanwhile
            self.is_woken = True
        if self.is_due:
            self.request()
        if not self.may_run:
            return _LONGEST_SLEEP if self.due is not None else None
        if self.retries.count:
            return max(self.retries.at - self.board.now(), 0.001)
        if self.due is None:
            return None
        return min(max((self.due - self.clock()) / 1_000, 0.0), _LONGEST_SLEEP)

    def request(self) -> Call | None:
        """Request a call from the plugin's thread; None if it may not run."""
        hook = self.runner.hooks.work
        assert hook is not None
        with self.board.lock:  # so that a plugin that is suspended meanwhile is waited for
            if not self.may_run:
                return None
            self.is_woken = False  # before the call: a wake from here on is seen after it
            try:
                return self.runner.request(_HOOK, lambda: hook(now=self.clock()), self._done)
            except StoreClosedError:
                return None

    def _done(self, call: Call) -> None:
        due, error = call.result, call.error
        if error is not None and is_users_interrupt(error):
            return
        is_time = due is None or (isinstance(due, int) and not isinstance(due, bool))
        if error is None and not is_time:
            error = TypeError(f"reput_work returned {due!r}; a time in ms or None expected")
        if error is None:
            self.due = due
            self.retries.succeeded()
        elif not self.is_over:
            self._retry_or_stop(error)

    def _retry_or_stop(self, error: BaseException) -> None:
        self.due = _AT_ONCE
        pause = self.retries.failed(error, self.board.now())
        if self.retries.are_over:
            self.retries.succeeded()  # once it is resumed
            self.runner.stop(error)
            return
        logger.warning(
            "work failed, tried again name=%s attempt=%d pause_s=%g error=%r",
            self.runner.name,
            self.retries.count,
            pause,
            error,
        )


class WorkScheduler:
    """All work of one store that is due by the clock."""

    def __init__(self, board: RunnerContext, clock: Callable[[], int]) -> None:
        """Make the workers; nothing runs before `start`."""
        self._board = board
        self._clock = clock
        self._works: dict[str, TimedWork] = {}
        self._is_running = False
        board.listen(self.wake_all)

    def use(self) -> None:
        """Run the work of the board's current plugins from now on, and of no others."""
        board = self._board
        for name, work in list(self._works.items()):
            if board.runners.get(name) is not work.runner:
                work.is_over = True
                del self._works[name]
        for name, each in board.runners.items():
            if each.hooks.work is not None and name not in self._works:
                self._works[name] = TimedWork(each, board, self._clock, Retries(board.config))
        self.schedule_due()

    # ------------------------------------------------------------------ being called

    def wake(self, name: str) -> None:
        """Have the work of the plugin ``name`` called soon."""
        work = self._works.get(name)
        if work is not None:
            work.is_woken = True
            if self._is_running:
                self._schedule(work)

    def wake_all(self) -> None:
        """Have all called soon, as the state of a plugin, or the clock, has changed."""
        for name in list(self._works):
            self.wake(name)

    def step(self) -> int | None:
        """Call each once, on this thread; return `next_due`."""
        for work in list(self._works.values()):
            call = work.request()
            if call is not None:
                call.wait()
        return self.next_due

    @property
    def next_due(self) -> int | None:
        """When the next call is due, ms, of all that may run; None if none waits for a time."""
        times = [work.next_due for work in list(self._works.values())]
        return min((due for due in times if due is not None), default=None)

    # ------------------------------------------------------------------ threads

    def start(self) -> None:
        """Run the work of each plugin on the plugin's thread until `stop`."""
        self._is_running = self._board.calls.threads
        self.use()

    def schedule_due(self) -> None:
        """Have each that is due called, also if its plugin's thread could not be started before."""
        if self._is_running:
            for work in list(self._works.values()):
                if work.is_due:
                    self._schedule(work)

    def _schedule(self, work: TimedWork) -> None:
        # A plugin that flushes keeps its thread; another one has it while work waits for a time.
        stays, calls = work.runner.hooks.flush is not None, self._board.calls
        with calls.lock:  # a plugin that is removed meanwhile must not get a new thread
            if not work.is_over:
                calls.thread_of(work.runner.name).do(work.work, stays=stays)

    def stop(self) -> None:
        """Call nothing any more, and wait for the slices under way; abandon one that hangs."""
        self._is_running = False
        works = list(self._works.values())
        if not works:
            return
        for work in works:
            work.is_over = True
        deadline = time.monotonic() + self._board.stall_seconds
        for work in works:
            for call in work.runner.calls:
                left = max(deadline - time.monotonic(), 0)
                if call.hook == _HOOK and not call.wait(left) and not call.is_made_here:
                    logger.error(
                        "plugin hangs and is left plugin=%s hook=reput_work", work.runner.name
                    )

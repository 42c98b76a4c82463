"""`Workers`: run work that is due by the clock, each plugin's on a thread of its own.

A plugin that delivers, checks back or compacts does so in its hook `reput_work`, in slices, and
returns when it must be called again. Between two calls its thread sleeps, until a dispatch or a
user's request wakes it.

The store's clock may jump either way, so a thread that waits for a time sleeps a second at most.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput.dispatch.running.calls import is_users_interrupt
from reput.dispatch.running.forking import end_forked_thread
from reput.errors import CreateMappedFileError
from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.dispatch.running.runner import Board, PluginRunner
    from reput.plugin.host.hooktable import WorkHook

logger = logging.getLogger(__name__)

__all__ = ["Worker", "Workers"]

_HOOK: Final = "reput_work"
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_SLEEP: Final = 1.0  # seconds until a jump of the clock is noticed
_UNHEARD_OF: Final = -1  # a time before any clock's: at once


@attrs.define(eq=False)
class Worker:
    """One function that is called when it is due."""

    name: str
    function: WorkHook
    """Takes ``now``; returns when to be called again, ms, or None."""
    runner: PluginRunner | None
    """The plugin whose work it is; None for the store's own work, which is never suspended."""
    due: int | None = _UNHEARD_OF
    awake: Flag = attrs.field(factory=Flag)
    attempts: int = 0
    """Failures since the last call that succeeded."""
    retry_at: float = 0.0
    """When to retry, in seconds of `time.monotonic`."""
    is_leaving: bool = False
    thread: threading.Thread | None = None


class Workers:
    """All work of one store that is due by the clock."""

    def __init__(self, board: Board, clock: Callable[[], int], *, threads: bool = True) -> None:
        """Make the workers; nothing runs before `start`.

        Args:
            board: the plugins.
            clock: the store's, ms.
            threads: whether `start` starts threads.
        """
        self._board = board
        self._process = os.getpid()
        self._clock = clock
        self._threads = threads
        self._workers: dict[str, Worker] = {}
        self._is_running = False
        self._starting = new_lock()
        board.listen(self.wake_all)

    # ------------------------------------------------------------------ adding and removing

    def use(self) -> None:
        """Run the work of the board's current plugins from now on, and of no others."""
        known = {worker.name: worker for worker in self._plugin_workers()}
        working = {name: each for name, each in self._board.runners.items() if each.hooks.work}
        for name, runner in working.items():
            if name not in known and runner.hooks.work is not None:
                self._add(Worker(name, runner.hooks.work, runner))
        for name in known.keys() - working.keys():
            self._leave(self._workers.pop(name))

    def add(self, name: str, function: Callable[[int], int | None]) -> None:
        """Add work of the store itself; ``name`` must not be a plugin's."""
        self._add(Worker(name, lambda now: function(now), None))

    def _add(self, worker: Worker) -> None:
        self._workers[worker.name] = worker
        if self._is_running:
            self._start(worker)

    def _plugin_workers(self) -> list[Worker]:
        return [worker for worker in list(self._workers.values()) if worker.runner is not None]

    @property
    def names(self) -> frozenset[str]:
        """Plugins that have `reput_work`."""
        return frozenset(worker.name for worker in self._plugin_workers())

    # ------------------------------------------------------------------ being called

    def wake(self, name: str) -> None:
        """Have the worker ``name`` called soon."""
        worker = self._workers.get(name)
        if worker is not None:
            worker.awake.set()

    def wake_all(self) -> None:
        """Have all workers called soon, as the state of a plugin, or the clock, has changed."""
        for worker in list(self._workers.values()):
            worker.awake.set()

    def step(self) -> int | None:
        """Call each worker once, on this thread; return `next_due`."""
        for worker in list(self._workers.values()):
            worker.awake.clear()
            if self._may_run(worker):
                self._call(worker)
        return self.next_due

    @property
    def next_due(self) -> int | None:
        """When the next call is due, ms, of all that may run; None if none waits for a time."""
        times = []
        for worker in list(self._workers.values()):
            if self._may_run(worker):
                if worker.awake.is_set() or worker.due == _UNHEARD_OF:
                    return self._clock()
                times.append(worker.due)
        return min((due for due in times if due is not None), default=None)

    def _may_run(self, worker: Worker) -> bool:
        return worker.runner is None or worker.runner.may_run

    def _call(self, worker: Worker) -> None:
        calls, runner = self._board.calls, worker.runner
        call = runner.ready(_HOOK) if runner else calls.ready(worker.name, _HOOK)
        try:
            if not (runner.begin(call) if runner else calls.begin(call)):
                return  # the plugin was stopped just now, or the store is closed
            try:
                answer = worker.function(now=self._clock())
            finally:
                if worker.thread is not None:
                    end_forked_thread(self._process)
            if answer is not None and (not isinstance(answer, int) or isinstance(answer, bool)):
                raise TypeError(f"reput_work returned {answer!r}; a time in ms or None expected")
        except BaseException as error:  # a plugin may raise anything
            if is_users_interrupt(error):
                raise
            self._failed(worker, error)
        else:
            worker.due, worker.attempts, worker.retry_at = answer, 0, 0.0
        finally:
            call.is_done = True
            calls.end(call)

    def _failed(self, worker: Worker, error: BaseException) -> None:
        if worker.is_leaving:
            return  # the store is closing
        config = self._board.config
        worker.attempts += 1
        worker.due = _UNHEARD_OF
        number = error.errno if isinstance(error, OSError) else None
        no_space = number in _NO_SPACE or isinstance(error, CreateMappedFileError)
        if worker.runner is None or no_space or worker.attempts <= config.retry_count:
            pause = config.pause_seconds(worker.attempts)
            worker.retry_at = time.monotonic() + pause
            logger.warning(
                "work failed, tried again name=%s attempt=%d pause_s=%g error=%r",
                worker.name,
                worker.attempts,
                pause,
                error,
            )
            return
        worker.attempts = 0
        worker.runner.fail(error)

    # ------------------------------------------------------------------ threads

    def start(self) -> None:
        """Run each worker on a thread of its own until `stop`."""
        if self._threads:
            self._is_running = True
            for worker in list(self._workers.values()):
                self._start(worker)

    def _start(self, worker: Worker) -> None:
        # `start` and `look_after` run on different threads: a worker with two threads would
        # deliver everything twice.
        with self._starting:
            if worker.thread is not None:
                return
            # Set before the thread runs: `_call` tells by it that it is on a worker's thread.
            worker.thread = threading.Thread(
                target=self._run, args=(worker,), name=f"reput-work-{worker.name}", daemon=True
            )
            try:
                worker.thread.start()
            except RuntimeError as error:  # a limit on processes; `look_after` tries again
                worker.thread = None
                logger.warning(
                    "no thread for work, tried again name=%s error=%s", worker.name, error
                )

    def _run(self, worker: Worker) -> None:
        while not worker.is_leaving:
            is_woken = worker.awake.is_set()
            worker.awake.clear()  # before the call: a wake from here on is seen after it
            if self._may_run(worker) and self._is_due(worker, is_woken):
                self._call(worker)
            worker.awake.wait(self._seconds_to_sleep(worker))

    def _is_due(self, worker: Worker, is_woken: bool) -> bool:
        if worker.attempts:
            return worker.retry_at <= time.monotonic()
        return is_woken or (worker.due is not None and worker.due <= self._clock())

    def _seconds_to_sleep(self, worker: Worker) -> float | None:
        if not self._may_run(worker):
            return _LONGEST_SLEEP if worker.due is not None else None
        if worker.attempts:
            return max(worker.retry_at - time.monotonic(), 0.001)
        if worker.due is None:
            return None
        return min(max((worker.due - self._clock()) / 1_000, 0.0), _LONGEST_SLEEP)

    def look_after(self) -> None:
        """Start threads for workers that have none yet."""
        for worker in list(self._workers.values()):
            if self._is_running and worker.thread is None:
                self._start(worker)

    def stop(self) -> None:
        """End the threads after their slices; abandon a thread that does not return."""
        self._is_running = False
        workers = list(self._workers.values())
        for worker in workers:
            worker.is_leaving = True
            worker.awake.set()
        deadline = time.monotonic() + self._board.stall_seconds
        for worker in workers:
            if worker.thread is not None and worker.thread is not threading.current_thread():
                worker.thread.join(max(deadline - time.monotonic(), 0))
                if worker.thread.is_alive():
                    logger.error("plugin hangs and is left plugin=%s hook=reput_work", worker.name)

    def _leave(self, worker: Worker) -> None:
        worker.is_leaving = True
        worker.awake.set()

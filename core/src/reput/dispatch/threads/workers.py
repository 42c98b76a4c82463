"""The workers: have what is due by the clock done, each plugin's on a thread of its own.

A plugin that delivers, checks back or compacts does so in its hook `reput_work`, in slices, and
says when it wants to be called again. Between two calls its thread sleeps; what dispatching brings,
or what a user asks for, wakes it.

The clock is the store's and may jump either way, so that no sleep is longer than a second while
somebody waits for a time.
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

from reput.dispatch.calls import is_users_interrupt
from reput.dispatch.forking import end_forked_thread
from reput.errors import CreateMappedFileError
from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.dispatch.runner import Board, PluginRunner
    from reput.plugin.host.hooktable import WorkHook

logger = logging.getLogger(__name__)

__all__ = ["Worker", "Workers"]

_HOOK: Final = "reput_work"
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_SLEEP: Final = 1.0  # seconds until a jump of the clock is noticed
_UNHEARD_OF: Final = -1  # a time that lies before any clock's: at once


@attrs.define(eq=False)
class Worker:
    """One function that is called when it is due."""

    name: str
    function: WorkHook
    """Takes ``now``, returns when to be called again, ms, or None."""
    runner: PluginRunner | None
    """The plugin whose work it is; None for work of the store's own, which nothing suspends."""
    due: int | None = _UNHEARD_OF
    awake: Flag = attrs.field(factory=Flag)
    attempts: int = 0
    """Failures since the last call that went well."""
    retry_at: float = 0.0
    """When to try again, in seconds of `time.monotonic`."""
    is_leaving: bool = False
    thread: threading.Thread | None = None


class Workers:
    """Everything in one store that works by the clock."""

    def __init__(self, board: Board, clock: Callable[[], int], *, threads: bool = True) -> None:
        """Make them; nothing runs before `start`.

        Args:
            board: knows the plugins.
            clock: the store's, in ms.
            threads: whether `start` starts any.
        """
        self._board = board
        self._process = os.getpid()
        self._clock = clock
        self._threads = threads
        self._workers: dict[str, Worker] = {}
        self._is_running = False
        self._starting = new_lock()
        board.listen(self.wake_all)

    # ------------------------------------------------------------------ who there is

    def use(self) -> None:
        """Have the plugins that there are work from now on, and no others."""
        known = {worker.name: worker for worker in self._plugin_workers()}
        working = {name: each for name, each in self._board.runners.items() if each.hooks.work}
        for name, runner in working.items():
            if name not in known and runner.hooks.work is not None:
                self._add(Worker(name, runner.hooks.work, runner))
        for name in known.keys() - working.keys():
            self._leave(self._workers.pop(name))

    def add(self, name: str, function: Callable[[int], int | None]) -> None:
        """Have work of the store's own done; ``name`` is none of a plugin's."""
        self._add(Worker(name, lambda now: function(now), None))

    def _add(self, worker: Worker) -> None:
        self._workers[worker.name] = worker
        if self._is_running:
            self._start(worker)

    def _plugin_workers(self) -> list[Worker]:
        return [worker for worker in list(self._workers.values()) if worker.runner is not None]

    @property
    def names(self) -> frozenset[str]:
        """Plugins that work by the clock."""
        return frozenset(worker.name for worker in self._plugin_workers())

    # ------------------------------------------------------------------ being called

    def wake(self, name: str) -> None:
        """Call this one soon."""
        worker = self._workers.get(name)
        if worker is not None:
            worker.awake.set()

    def wake_all(self) -> None:
        """Look anew who is due: a plugin's state has changed, or the clock."""
        for worker in list(self._workers.values()):
            worker.awake.set()

    def step(self) -> int | None:
        """Call everybody once on this thread; when the next is due, ms, None when none is."""
        for worker in list(self._workers.values()):
            worker.awake.clear()
            if self._may_run(worker):
                self._call(worker)
        return self.next_due

    @property
    def next_due(self) -> int | None:
        """The earliest time that anybody who runs wants to be called at, ms; None when none."""
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
                return  # it was stopped just now, or the store is closed
            try:
                answer = worker.function(now=self._clock())
            finally:
                if worker.thread is not None:
                    end_forked_thread(self._process)
            if answer is not None and (not isinstance(answer, int) or isinstance(answer, bool)):
                raise TypeError(f"reput_work returned {answer!r}; a time in ms or None expected")
        except BaseException as error:  # whatever a plugin raises
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
            return  # the store closes under it
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
        """Run everybody on a thread of its own until `stop`."""
        if self._threads:
            self._is_running = True
            for worker in list(self._workers.values()):
                self._start(worker)

    def _start(self, worker: Worker) -> None:
        # `start` and `look_after` are on different threads: with two threads for one worker, what
        # is due would be delivered by both.
        with self._starting:
            if worker.thread is not None:
                return
            # Set before it runs: by this the call knows that it is made on a thread of ours.
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
            worker.awake.clear()  # before the call: who wakes it from here on is heard afterwards
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
        """Start workers that have no thread yet."""
        for worker in list(self._workers.values()):
            if self._is_running and worker.thread is None:
                self._start(worker)

    def stop(self) -> None:
        """End the threads when their slices are done; one that does not come back is left."""
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

"""Runs tasks one by one in this process, or side by side in several processes of this machine.

An engine knows nothing of what a task does. Spark's is in the distribution ``reput-spark``. Each of
several processes imports the script that was started, as processes of `multiprocessing` do, so that
a script has its work below ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from ctypes import Array
    from multiprocessing.sharedctypes import Synchronized

_LOOK_SECONDS = 0.2  # interval between updates of the bar while no task ends
_SAFE_PATH = "PYTHONSAFEPATH"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_UNGUARDED = 3
"""Exit code of a process that only imports the script again."""


@attrs.define(eq=False, slots=False)
class ProcessEndedError(ReputError):
    """A process of a `LocalEngine` ended before its task did; no task runs any more."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class Task(Protocol):
    """One piece of work, made of plain values so that it can be sent."""

    @property
    def size(self) -> int:
        """Bytes of the log that it stands for, for the progress bar."""
        ...


Work: TypeAlias = Callable[[Any, Callable[[int], None]], Any]
"""A function that does a task: called with the task, and with a function to report the number of
bytes done. It is sent, too: a function of a module, or a `functools.partial` over plain values."""


class Engine(Protocol):
    """Runs tasks."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at once."""
        ...

    @property
    def splits(self) -> bool:
        """Whether cutting work into parts is worthwhile."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether tasks run in this process, one by one."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, where they reach files of its temporary directory."""
        ...

    def run(
        self, work: Work, tasks: Sequence[Task], told: Callable[[int], None] = lambda size: None
    ) -> list[Any]:
        """Return the results of ``work`` on each task, in the order of the tasks.

        When this returns or raises, no task runs any more.

        Args:
            work: see `Work`.
            tasks: the ones to begin first come first.
            told: called with the bytes of the tasks done so far; never fewer than before.
        """
        ...


class LocalEngine:
    """Runs tasks in processes of this machine, or in this process if 1. A context manager.

    Args:
        jobs: number of processes; one for each processor when left out.
        splits: whether work is cut into parts; only for several processes when left out. In parts
            a log is read once for several plugins, in one piece once for each.

    Raises:
        ProcessEndedError: from `run`: a process ended, or none could begin, as a script uses
            several without ``if __name__ == "__main__":``.
    """

    is_local = True

    def __init__(self, jobs: int | None = None, *, splits: bool | None = None) -> None:
        self.parallelism = max(jobs or os.cpu_count() or 1, 1)
        self.is_here = self.parallelism == 1
        self.splits = not self.is_here if splits is None else splits
        self._pool: ProcessPoolExecutor | None = None
        if not self.is_here and getattr(multiprocessing.current_process(), "_inheriting", False):
            # A process of an engine, which imports the script, and comes here once more: the mark
            # is the one by which multiprocessing refuses to begin a process then. The process that
            # waits for this one says what to do.
            raise SystemExit(_UNGUARDED)
        # Spawned, not forked: the calling process may have threads, and locks that they hold.
        self._context = multiprocessing.get_context("spawn")
        with _environment():  # a lock starts a process of multiprocessing, too
            self._meters = self._context.RawArray("q", self.parallelism)
            self._begun = self._context.Value("i", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(
        self, work: Work, tasks: Sequence[Task], told: Callable[[int], None] = lambda size: None
    ) -> list[Any]:
        """See `Engine.run`."""
        if self.is_here:
            return _run_here(work, tasks, told)
        try:
            pool = self._pool = self._pool or self._new_pool()
            with _environment():
                futures = {pool.submit(_work, work, task): task for task in tasks}
            self._wait(futures, told)
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            self._pool = None
            raise ProcessEndedError(self._why_ended()) from error

    def _new_pool(self) -> ProcessPoolExecutor:
        self._begun.value = 0
        return ProcessPoolExecutor(
            self.parallelism,
            mp_context=self._context,
            initializer=_begin,
            initargs=(self._meters, self._begun),
        )

    def _why_ended(self) -> str:
        if self._begun.value:
            return (
                "a process ended in the middle of a task: killed, perhaps, as memory ran out; "
                "fewer processes (jobs) take less"
            )
        return (
            "no process could begin its work. Each imports the script that was started: the script "
            'needs `if __name__ == "__main__":` before what it does (or LocalEngine(1), which '
            "works in this process)"
        )

    def _wait(self, futures: dict[Future[Any], Task], told: Callable[[int], None]) -> None:
        waiting = set(futures)
        done = most = 0
        try:
            while waiting:
                ended, waiting = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
                for future in ended:
                    future.result()
                    done += futures[future].size
                # A task that has just ended is counted by its size; its meter may count it as well,
                # or not yet.
                total = sum(task.size for task in futures.values())
                most = max(most, min(done + sum(self._meters), total) if waiting else total)
                told(most)
        except BaseException:
            for future in waiting:
                future.cancel()
            wait(waiting)  # tasks in progress still write where the caller is about to clear up
            raise


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Have processes that start import nothing from the working directory, and start no BLAS.

    The directory may be a store's, in which a module can be of others. numpy's BLAS starts a thread
    for each processor, which spins: a third of the processor time that a start takes.
    """
    before = {name: os.environ.get(name) for name in (_SAFE_PATH, _BLAS_THREADS)}
    os.environ[_SAFE_PATH] = "1"
    os.environ[_BLAS_THREADS] = before[_BLAS_THREADS] or "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run_here(work: Work, tasks: Sequence[Task], told: Callable[[int], None]) -> list[Any]:
    results: list[Any] = []
    done = 0
    for task in tasks:
        begin, size = done, task.size

        def report(count: int, begin: int = begin, size: int = size) -> None:
            told(begin + min(count, size))

        results.append(work(task, report))
        done += size
        told(done)
    return results


# ---------------------------------------------------------------------- in the other processes

_meters: Array[Any] | None = None
"""Bytes done of the current task, one number for each process."""
_own_meter = 0


def _begin(meters: Array[Any], next_meter: Synchronized[int]) -> None:
    global _meters, _own_meter
    with next_meter.get_lock():
        _own_meter = next_meter.value
        next_meter.value += 1
    _meters = meters
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended, for whatever reason.

    Otherwise it would wait for a task for ever, or go on writing where the next rebuild clears up.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _work(work: Work, task: Task) -> Any:
    assert _meters is not None
    meters, own = _meters, _own_meter

    def report(count: int) -> None:
        meters[own] = count

    try:
        return work(task, report)
    finally:
        report(0)

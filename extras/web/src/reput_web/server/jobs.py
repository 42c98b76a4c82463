"""`Jobs`: work that reads a whole store, which somebody has asked for; at most one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import attrs

from reput.errors import ReputError
from reput.files import system_clock
from reput_web.errors import BusyError

Progress = Callable[[str, int, int], None]


class StoppedError(ReputError):
    """The job was stopped."""


@attrs.define(eq=False)
class Job:
    """One such work."""

    kind: str
    started_timestamp: int = attrs.field(factory=system_clock)
    step: str = ""
    done: int = 0
    total: int = 0
    result: Any = None
    error: str | None = None
    is_over: bool = False
    ended_timestamp: int | None = None
    stopped: threading.Event = attrs.field(factory=threading.Event)
    over: threading.Event = attrs.field(factory=threading.Event)

    def update(self, step: str, done: int, total: int) -> None:
        """Note how far it is.

        Raises:
            StoppedError: somebody has stopped it.
        """
        if self.stopped.is_set():
            raise StoppedError("stopped")
        self.step, self.done, self.total = step, done, total


@attrs.define(eq=False)
class Jobs:
    """The last job of each kind; thread-safe."""

    last: dict[str, Job] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def start(self, kind: str, work: Callable[[Progress], Any]) -> Job:
        """Start a job on a thread of its own.

        Raises:
            BusyError: another one is under way.
        """
        with self._lock:
            if any(not job.is_over for job in self.last.values()):
                raise BusyError("Another job reads the store. Wait for its end, or stop it.")
            job = self.last[kind] = Job(kind)
        thread = threading.Thread(target=_run, args=(job, work), name=f"reput-web-{kind}")
        thread.daemon = True
        thread.start()
        return job

    def stop(self, kind: str) -> None:
        """Have a job end at its next step."""
        job = self.last.get(kind)
        if job is not None:
            job.stopped.set()

    def close(self) -> None:
        """Stop all jobs, and wait until they have ended."""
        for job in self.last.values():
            job.stopped.set()
        for job in self.last.values():
            job.over.wait(10)


def _run(job: Job, work: Callable[[Progress], Any]) -> None:
    try:
        job.result = work(job.update)
    except StoppedError:
        job.error = "stopped"
    except (ReputError, OSError, ValueError) as error:
        job.error = str(error)
    except BaseException as error:
        job.error = f"{type(error).__name__}: {error}"
        raise
    finally:
        job.ended_timestamp = system_clock()
        job.is_over = True
        job.over.set()

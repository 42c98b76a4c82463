"""`SessionWorker`: a client's thread for what may wait for brokers: rebalancing, saving offsets.

The event loop must not wait, and consumers' own threads may be in their programs' functions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from reput.errors import ReputError

logger = logging.getLogger(__name__)

_LONGEST_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_AGAIN_MS: Final = 1_000


class SessionWorker:
    """Carries out what it is given, one after the other. Thread-safe."""

    def __init__(
        self,
        work: Callable[[int], int | None],
        clock: Callable[[], int],
        every: Callable[[], None],
        interval: float,
    ) -> None:
        """Start the thread.

        Args:
            work: called with a time, ms; returns when it is to be called again, or None.
            clock: returns ms.
            every: called every ``interval`` seconds.
            interval: seconds.
        """
        self._work = work
        self._clock = clock
        self._every = every
        self._interval = interval
        self._every_at = time.monotonic() + interval
        self._jobs: dict[object, Callable[[], None]] = {}
        self._is_woken = False
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="reput-client-work", daemon=True)
        self._thread.start()

    def do(self, key: object, job: Callable[[], None]) -> None:
        """Carry ``job`` out soon, but once only if one with this key waits already."""
        with self._changed:
            self._jobs.setdefault(key, job)
            self._changed.notify()

    def wake(self) -> None:
        """Call ``work`` soon."""
        with self._changed:
            self._is_woken = True
            self._changed.notify()

    def _run(self) -> None:
        due: int | None = None
        while True:
            with self._changed:
                if not (self._jobs or self._is_woken or self._is_closed):
                    self._changed.wait(self._seconds_until(due))
                if self._is_closed:
                    return
                jobs, self._jobs = list(self._jobs.values()), {}
                self._is_woken = False
            for job in jobs:
                self._carry_out(job)
            if self._every_at <= time.monotonic():
                self._every_at = time.monotonic() + self._interval
                self._carry_out(self._every)
            due = self._next_due()

    def _next_due(self) -> int | None:
        """Do what is due; return when something is due next, ms."""
        found: list[int | None] = [self._clock() + _AGAIN_MS]  # should it fail
        self._carry_out(lambda: found.append(self._work(self._clock())))
        return found[-1]

    def _seconds_until(self, due: int | None) -> float:
        left = min(self._every_at - time.monotonic(), _LONGEST_SECONDS)
        if due is not None:
            left = min(left, (due - self._clock()) / 1000)
        return max(left, 0.0)

    def _carry_out(self, job: Callable[[], None]) -> None:
        try:
            job()
        except (ReputError, OSError) as error:
            logger.warning("work of consumers failed; the next round tries again: %s", error)
        except Exception:
            logger.exception("work of consumers failed; the next round tries again")

    def close(self) -> None:
        """End the thread; what waits is not carried out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_SECONDS)

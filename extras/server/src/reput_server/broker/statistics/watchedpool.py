"""`WatchedPool`: threads of which it is known how much waits for them, and for how long."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

ParametersT = ParamSpec("ParametersT")
AnswerT = TypeVar("AnswerT")


class WatchedPool(ThreadPoolExecutor):
    """A pool of threads that knows how busy it is."""

    def __init__(
        self, thread_count: int, name: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(thread_count, name)
        self._monotonic = monotonic
        self._numbers: Iterator[int] = itertools.count()
        self._waiting: dict[int, float] = {}  # since when, the longest first

    def submit(
        self,
        work: Callable[ParametersT, AnswerT],
        /,
        *arguments: ParametersT.args,
        **named: ParametersT.kwargs,
    ) -> Future[AnswerT]:
        """Have ``work`` called on one of the threads."""
        number = next(self._numbers)

        def run() -> AnswerT:
            self._waiting.pop(number, None)
            return work(*arguments, **named)

        self._waiting[number] = self._monotonic()
        try:
            future = super().submit(run)
        except BaseException:
            self._waiting.pop(number, None)
            raise
        # One that is cancelled is never run.
        future.add_done_callback(lambda _: self._waiting.pop(number, None))
        return future

    @property
    def waiting_count(self) -> int:
        """How much waits for a thread."""
        return len(self._waiting)

    @property
    def head_wait_ms(self) -> int:
        """How long what has come first has waited; 0 if nothing waits."""
        # One call of the interpreter, which other threads do not come between.
        found = list(self._waiting.values())
        return max(int((self._monotonic() - found[0]) * 1000), 0) if found else 0

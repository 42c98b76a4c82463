"""`Workers`: a few threads that read the store; each ends with the request that it works for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
import attrs
from starlette.requests import Request

from reput_web.readmodel.workbudget import WorkBudget

_Answer = TypeVar("_Answer")


@attrs.define(eq=False)
class Workers:
    """Runs work for requests on threads, at most so many at once."""

    count: int
    seconds: float
    _limit: anyio.CapacityLimiter | None = None

    async def run(self, request: Request, work: Callable[[WorkBudget], _Answer]) -> _Answer:
        """Return what ``work`` returns; its budget is spent at once when the client leaves."""
        if self._limit is None:  # needs a running event loop
            self._limit = anyio.CapacityLimiter(self.count)
        answers: list[_Answer] = []
        errors: list[Exception] = []
        async with self._limit, anyio.create_task_group() as tasks:
            budget = WorkBudget(self.seconds)
            tasks.start_soon(_watch, request, budget)
            try:
                answers.append(await anyio.to_thread.run_sync(work, budget))
            except Exception as error:  # a task group would wrap it
                errors.append(error)
            tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]
        return answers[0]


async def _watch(request: Request, budget: WorkBudget) -> None:
    """Wait until the client has left, and stop the work then."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            budget.stopped.set()
            return

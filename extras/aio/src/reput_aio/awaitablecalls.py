"""`AwaitableCalls`: an object whose methods are awaited, as they are called on a thread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reput_aio.threads import Threads


class AwaitableCalls:
    """Another object with the same fields; ``await`` its methods.

    For what plugins offer: ``await store.plugin("schedule").cancel(receipt)``.
    """

    def __init__(self, called: Any, threads: Threads, check: Callable[[], None]) -> None:
        self._called = called
        self._threads = threads
        self._check = check

    async def _call_on_thread(self, function: Callable[[], Any]) -> Any:
        return await self._threads.call(function)

    def __repr__(self) -> str:
        return f"<awaitable {self._called!r}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._called, name)
        return (
            awaitable(found, self._call_on_thread, self._check)
            if inspect.isroutine(found)
            else found
        )


def awaitable(
    function: Callable[..., Any],
    call_on_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
    check: Callable[[], None],
) -> Callable[..., Awaitable[Any]]:
    """Return a function that calls another one on a thread, with the same arguments."""

    @functools.wraps(function)
    async def call(*args: Any, **options: Any) -> Any:
        check()
        return await call_on_thread(functools.partial(function, *args, **options))

    return call

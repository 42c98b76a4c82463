"""`AsyncTransaction`: messages that become visible together, or never, in an asyncio program."""

from __future__ import annotations

import functools
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reput_aio.awaitablecalls import AwaitableCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_aio.threads import Threads


class AsyncTransaction(AwaitableCalls):
    """What `AsyncStore.transaction` returns: a context manager that commits at its end.

    A block that raises, or is cancelled, rolls back. All methods of the transaction are awaited:
    ``await transaction.put(message)``.
    """

    def __init__(
        self, begin: Callable[[], Any], threads: Threads, check: Callable[[], None]
    ) -> None:
        super().__init__(None, threads, check)
        self._begin = begin
        self._lock = threading.Lock()

    async def _call_on_thread(self, function: Callable[[], Any]) -> Any:
        """Call on a thread, after calls before: one that was cancelled may be under way."""
        return await self._threads.call(functools.partial(self._call_in_turn, function))

    def _call_in_turn(self, function: Callable[[], Any]) -> Any:
        with self._lock:
            return function()

    async def __aenter__(self) -> Self:
        self._check()
        self._called = await self._threads.call(self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._called.is_ended:
            end = self._called.commit if kind is None else self._called.roll_back
            await self._call_on_thread(end)

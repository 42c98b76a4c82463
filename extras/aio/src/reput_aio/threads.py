"""`Threads`: calls that may wait, made on threads, for the coroutines of one store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from reput.errors import StoreClosedError
from reput.signalsafe import start_thread

_Answer = TypeVar("_Answer")


class Threads:
    """A pool for calls that end soon. Used on any event loop."""

    def __init__(self, count: int, root: str) -> None:
        self._pool = ThreadPoolExecutor(count, "reput-aio")
        self._root = root
        self._is_closed = False

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The threads."""
        return self._pool

    async def call(self, function: Callable[[], _Answer]) -> _Answer:
        """Call a function on a thread of the pool.

        A cancelled call that has begun goes on, and its answer is lost.

        Raises:
            StoreClosedError: the threads are ended.
        """
        if self._is_closed:
            raise StoreClosedError(self._root)
        loop = asyncio.get_running_loop()
        try:
            answer = loop.run_in_executor(self._pool, function)
        except RuntimeError:
            if self._is_closed:  # since the check above
                raise StoreClosedError(self._root) from None
            raise
        return await answer

    def close(self) -> None:
        """Wait for calls under way, and end the threads. Blocks."""
        self._is_closed = True
        self._pool.shutdown()


def on_own_thread(function: Callable[[], _Answer]) -> Future[_Answer]:
    """Call a function that may wait for long on a thread of its own.

    Raises:
        RuntimeError: no thread can be started.
    """
    found: Future[_Answer] = Future()

    def run() -> None:
        if not found.set_running_or_notify_cancel():
            return
        try:
            answer = function()
        except BaseException as error:  # it goes to the coroutine that waits
            found.set_exception(error)
        else:
            found.set_result(answer)

    start_thread(threading.Thread(target=run, name="reput-aio-wait", daemon=True))
    return found

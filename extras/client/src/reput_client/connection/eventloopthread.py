"""`EventLoopThread`: the event loop of a client, on a thread of its own.

Programs call functions that return when they are done; the loop carries out their requests,
so that one program has thousands of requests under way on one thread.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from reput_client.errors import ClientClosedError

_T = TypeVar("_T")
_Future = concurrent.futures.Future[Any]
_END_SECONDS: Final = 5.0
_ROUNDS: Final = 3


class EventLoopThread:
    """A running event loop. Thread-safe.

    Not to be called on its own thread, which would wait for itself.
    """

    def __init__(self, name: str = "reput-client") -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._submitted: collections.deque[tuple[Coroutine[Any, Any, Any], _Future]] = (
            collections.deque()
        )
        self._is_woken = False
        """Whether the loop is going to look at `_submitted`."""
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop."""
        return self._loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(_cancel_all())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def submit(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        """Begin ``work``, and return its future.

        Raises:
            ClientClosedError: the loop is closed, or runs in the parent of this process.
        """
        if self._is_closed or os.getpid() != self._pid:
            work.close()
            self._check()
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._submitted.append((work, future))
        if not self._is_woken:  # to wake the loop is a system call; two of them do no harm
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, which is seen below
                self._loop.call_soon_threadsafe(self._begin_all)
        if self._is_closed:  # meanwhile: nobody may look at what is submitted any more
            future.cancel()
            with contextlib.suppress(ValueError):  # it was begun, or closed
                self._submitted.remove((work, future))
                work.close()
        return future

    def _begin_all(self) -> None:
        """Begin all work that was submitted. On the loop's thread."""
        self._is_woken = False  # first, as what is submitted from here on may be overlooked
        while self._submitted:
            work, future = self._submitted.popleft()
            _begin(self._loop, work, future)

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Carry ``work`` out, and return what it returns; interrupted, it is cancelled.

        Raises:
            ClientClosedError: the loop is closed, or closes meanwhile.
        """
        assert threading.current_thread() is not self._thread
        future = self.submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosedError from None
        except BaseException:
            future.cancel()
            raise

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Have the loop call a function that does not wait; nothing if the loop is closed."""
        if not self._is_closed and os.getpid() == self._pid:
            self._loop.call_soon_threadsafe(function, *arguments)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ClientClosedError(
                f"process {self._pid} opened the client, and this is its forked child "
                f"{os.getpid()}, which cannot use it; open another one here"
            )
        raise ClientClosedError

    def close(self) -> None:
        """Cancel everything that is under way, and end the thread."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        while self._submitted:  # by threads that have seen an open loop a moment ago
            work, future = self._submitted.popleft()
            work.close()
            future.cancel()


def _begin(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], future: _Future
) -> None:
    """Carry work out as a task, and its result to a future that other threads wait for."""
    if future.cancelled():
        work.close()
        return
    task = loop.create_task(work)
    task.add_done_callback(lambda done: _settle(done, future))

    def cancel(ended: _Future) -> None:
        if ended.cancelled() and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    future.add_done_callback(cancel)


def _settle(task: asyncio.Task[Any], future: _Future) -> None:
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
        return
    error = task.exception()
    if not future.set_running_or_notify_cancel():
        return  # the caller has given up
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


async def _cancel_all() -> None:
    """Cancel all tasks, also new ones: a thread may submit work, and a task may begin another.

    A task that is left when the loop is closed keeps its socket open.
    """
    for _ in range(_ROUNDS):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # a transport closes its socket in the turn after its `abort`

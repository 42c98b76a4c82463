"""`FlushWaiters`: coroutines of one event loop that wait until messages are on disk.

One thread flushes for all of them. After each flush the loop ends all waits that the flush covers.
Messages that are put while the disk works go with the next flush. The thread ends once nothing was
waited for during a second.

The compiled kernels flush, and report flushes, without the interpreter lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import math
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from reput import Durability
from reput.errors import FlushDiskTimeoutError, OffsetOutOfRangeError, ReputError
from reput.signalsafe import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput import BatchReceipt, Receipt
    from reput.log import FlushProgress, FlushRequests

_IDLE_SECONDS: Final = 1.0

_lock = threading.Lock()
_all: dict[tuple[FlushProgress, asyncio.AbstractEventLoop], FlushWaiters] = {}
"""Those whose threads run: of each log and each loop one."""


async def durability(receipt: Receipt | BatchReceipt) -> Durability:
    """Wait until the messages of a receipt are on disk; return their durability.

    ``await receipt`` is the same. Flushes if necessary.

    Raises:
        ServiceNotAvailableError: flushing failed; the messages may never become durable.
    """
    progress, end_offset = receipt.progress, receipt.end_offset
    if progress.flushed_offset < end_offset:
        await FlushWaiters.of(progress, asyncio.get_running_loop()).wait(end_offset)
    return receipt.durability


class FlushWaiters:
    """The waits of one loop for one log. Used on the loop."""

    def __init__(self, progress: FlushProgress, loop: asyncio.AbstractEventLoop) -> None:
        self._progress = progress
        self._loop = loop
        self._new_future = functools.partial(asyncio.Future, loop=loop)
        self._waiting: dict[asyncio.Future[bool], tuple[int, float]] = {}
        """For each wait the physical offset that it waits for, and its time limit."""
        self._is_asked = False
        """Whether a flush is going to be asked for, or is under way."""
        self._asked_at = 0.0
        """When the last flush was asked for, s."""
        self._requests: FlushRequests | None = None
        """Those that the thread serves; None if no thread runs."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """When the timer ends."""

    @classmethod
    def of(cls, progress: FlushProgress, loop: asyncio.AbstractEventLoop) -> FlushWaiters:
        """Return the waits of a loop for a log."""
        found = _all.get((progress, loop))
        return cls(progress, loop) if found is None else found

    async def wait(self, end_offset: int) -> None:
        """Wait until the log is on disk below ``end_offset``, at most the log's end.

        Raises:
            ServiceNotAvailableError: a flush failed before these bytes were on disk.
        """
        future = self.begin(end_offset)
        try:
            await future
        finally:
            self.forget(future)

    def forget(self, future: asyncio.Future[bool]) -> None:
        """Let a future of `begin` go that is cancelled."""
        self._waiting.pop(future, None)

    def begin(self, end_offset: int, limit: float = math.inf) -> asyncio.Future[bool]:
        """Return a future that ends as `wait` does; with False at a time by `time.monotonic`."""
        future: asyncio.Future[bool] = self._new_future()
        self._waiting[future] = end_offset, limit
        if not self._is_asked:
            self._is_asked = True
            # What else is put in this turn of the loop goes along.
            self._loop.call_soon(self._ask)
        if limit < self._due:
            self._look_at(limit)
        return future

    def _look_at(self, limit: float) -> None:
        """Look at this time whether waits are to be ended, instead of a later one."""
        if self._timer is not None:
            self._timer.cancel()
        self._due = limit
        self._timer = None
        if limit != math.inf:
            self._timer = self._loop.call_later(limit - time.monotonic(), self._end_late)

    # ------------------------------------------------------------------ on the loop

    def _ask(self) -> None:
        """Have the thread flush everything that is waited for now."""
        # A wait that was cancelled in this turn of the loop counts no more.
        wanted = [offset for future, (offset, _) in self._waiting.items() if not future.done()]
        if not wanted:
            self._is_asked = False
            return
        target = max(wanted)
        self._asked_at = time.perf_counter()
        try:
            with _lock:
                self._progress.flusher.request(self._require_thread(), target)
        except OffsetOutOfRangeError as error:
            self._ended(self._progress.flushed_offset, error)
        except RuntimeError as error:
            # The messages stay, and the flush of the store comes to them.
            text = f"stored, but not known to be on disk: no thread can be started: {error}"
            self._ended(0, FlushDiskTimeoutError("end_offset", target, None, text))

    def _require_thread(self) -> FlushRequests:
        """Start the thread, unless it runs; return its requests."""
        if self._requests is None:
            requests, counter = self._progress.flusher.requests(), _Counter()
            counter.watch(self._loop, self._counted)
            thread = threading.Thread(
                target=self._run, args=(requests, counter), name="reput-aio-flush", daemon=True
            )
            try:
                start_thread(thread)
            except RuntimeError:
                counter.close(self._loop)
                raise
            self._requests = requests
            _all.setdefault((self._progress, self._loop), self)
        return self._requests

    def _close_counter(self, counter: _Counter) -> None:
        """Forget a counter whose thread has ended."""
        self._counted(counter)  # if the loop stood still since the last flush
        counter.close(self._loop)

    def _counted(self, counter: _Counter) -> None:
        """End the waits that a flush without the interpreter lock has covered."""
        try:
            os.eventfd_read(counter.descriptor)
        except BlockingIOError:
            return
        self._progress.flusher.end_request(time.perf_counter() - self._asked_at)
        self._ended(self._progress.flushed_offset, None)

    def _ended(self, flushed_offset: int, error: Exception | None) -> None:
        """End the waits that a flush has covered; all of them if it has failed."""
        left = {}
        for future, wanted in self._waiting.items():
            if future.done():
                continue
            if wanted[0] <= flushed_offset:
                future.set_result(True)
            elif error is not None:
                future.set_exception(fresh_error(error))
            else:
                left[future] = wanted
        self._waiting.clear()
        self._waiting.update(left)
        # After the coroutines whose waits have ended: what they put now goes along.
        self._loop.call_soon(self._ask)

    def _end_late(self) -> None:
        """End the waits whose time is over."""
        now, following = time.monotonic(), math.inf
        # Where the loop stood still, this comes before `_ended`.
        flushed = self._progress.flushed_offset
        for future, (end_offset, limit) in list(self._waiting.items()):
            if limit > now:
                following = min(following, limit)
            elif not future.done():
                future.set_result(end_offset <= flushed)
                del self._waiting[future]
        self._look_at(following)

    # ------------------------------------------------------------------ on the thread

    def _run(self, requests: FlushRequests, counter: _Counter) -> None:
        progress = self._progress
        is_served = True
        while is_served:
            error: Exception | None = None
            try:
                asked_offset = requests.serve(counter.descriptor, _IDLE_SECONDS)
                if asked_offset is None:
                    is_served = not self._retires(requests)
                    continue
                progress.wait_flushed(asked_offset, None)
            except BaseException as raised:  # each wait ends with it, whatever it is
                error = raised if isinstance(raised, Exception) else _unexpected(raised)
            try:
                flushed = progress.flushed_offset
            except ReputError:
                flushed = 0  # a child that was forked
            try:
                self._loop.call_soon_threadsafe(self._ended, flushed, error)
            except RuntimeError:  # the loop is closed, and all of its coroutines with it
                with _lock:
                    self._leave()
                is_served = False
        if counter.descriptor >= 0:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and watches nothing
                self._loop.call_soon_threadsafe(self._close_counter, counter)

    def _retires(self, requests: FlushRequests) -> bool:
        with _lock:
            if requests.is_asked:
                return False
            self._leave()
            return True

    def _leave(self) -> None:
        self._requests = None
        key = self._progress, self._loop
        if _all.get(key) is self:
            del _all[key]


class _Counter:
    """An event counter that a loop watches.

    It is closed when nothing refers to it at the latest: a loop that is closed makes no more calls.
    """

    def __init__(self) -> None:
        self.descriptor = -1
        """-1 if there is none."""

    def watch(self, loop: asyncio.AbstractEventLoop, call: Callable[[_Counter], None]) -> None:
        """Have ``call`` called when it has counted.

        A loop may not watch descriptors, or too many may be open: the thread then calls the loop.
        """
        if sys.platform != "linux":
            return
        try:
            self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            loop.add_reader(self.descriptor, call, self)
        except (NotImplementedError, OSError):
            self._close()

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """End it; called on the loop that watches it."""
        if self.descriptor >= 0:
            loop.remove_reader(self.descriptor)
            self._close()

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _unexpected(raised: BaseException) -> RuntimeError:
    """Return an error that ends a coroutine, and not its loop."""
    error = RuntimeError(f"waiting for the disk failed: {raised!r}")
    error.__cause__ = raised
    return error


def fresh_error(error: Exception) -> Exception:
    """Return a copy: one object that many coroutines raise would mix their tracebacks."""
    found = copy.copy(error).with_traceback(None)
    found.__cause__ = error.__cause__
    return found


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _all.clear()  # no thread of these exists here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

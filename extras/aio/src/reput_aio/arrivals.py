"""`Arrivals`: coroutines that wait until a queue has more messages. Thread-safe."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from reput.errors import StoreClosedError
from reput.files import FileWatch

if TYPE_CHECKING:
    from reput import DispatchBatch, Store

_Queue = tuple[str, int]
_LIGHT: Final = "%LMQ%"
"""Light queues have messages of other topics, so any message may be theirs."""
_CLOSED_SECONDS: Final = 1.0
"""How often a wait looks whether the store was closed otherwise than by `AsyncStore.close`."""


class Arrivals:
    """Coroutines that wait for messages of queues of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[_Queue, set[asyncio.Future[bool]]] = {}
        self._end: Callable[[], None] | None = None
        self._watch: FileWatch | None = None
        """Of a store into which another process puts."""
        self._watched: set[_Queue] = set()
        self._is_closed = False

    @contextlib.contextmanager
    def awaited(self, topic: str, queue_id: int) -> Iterator[asyncio.Future[bool]]:
        """Yield a future of this loop that is done when the queue has got messages since."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        key = topic, queue_id
        with self._lock:
            if self._is_closed:
                raise StoreClosedError(self._store.root)
            if self._end is None:
                self._end = self._start()
            self._waiting.setdefault(key, set()).add(future)
            if self._watch is not None:
                self._watched.add(key)
                self._watch.add(key, "consumequeue", topic, str(queue_id))
        try:
            yield future
        finally:
            future.cancel()
            with self._lock:
                self._forget(key, future)

    def _forget(self, key: _Queue, future: asyncio.Future[bool]) -> None:
        futures = self._waiting.get(key)
        if futures is not None:
            futures.discard(future)
            if not futures:
                del self._waiting[key]

    def _start(self) -> Callable[[], None]:
        """Have arrivals reported; return what ends that."""
        if self._store.writable:
            return self._store.call_on_arrival(self._arrive)
        self._watch = watch = FileWatch(self._store.root)
        thread = threading.Thread(
            target=self._look, args=(watch,), name="reput-arrivals", daemon=True
        )
        thread.start()

        def end() -> None:
            watch.wake()
            thread.join()
            watch.close()

        return end

    def _look(self, watch: FileWatch) -> None:
        """Wake those whose queues were written by another process, and now and then all.

        The thread ends once nobody waits at such a time, or the store was closed.
        """
        looked = time.monotonic()
        is_needed = True
        while is_needed:
            changed = watch.wait(looked + watch.interval - time.monotonic())
            now = time.monotonic()
            is_due = now - looked >= watch.interval
            with self._lock:
                if self._is_closed:
                    return  # `close` ends the watch
                waiting = set(self._waiting)
                reported = self._take(changed.__contains__)
                others = self._take(lambda key: True) if is_due else []
                if is_due:
                    looked = now
                    for key in self._watched - waiting:  # not at each read, as most wait again
                        watch.remove(key)
                    self._watched &= waiting
                    is_needed = bool(waiting) and not self._store.closed
                if not is_needed:
                    self._end = self._watch = None
                    self._watched.clear()
            _call_each(reported, _set_done)
            _call_each(others, _set_looked)
        watch.close()

    def found_more(self) -> None:
        """Note that a read found messages that were not reported."""
        watch = self._watch
        if watch is not None:
            watch.found_more()

    async def wait(self, arrived: asyncio.Future[bool], seconds: float) -> bool:
        """Wait until a queue of `awaited` is to be read again, at most so many seconds.

        Returns:
            Whether an arrival was reported.

        Raises:
            StoreClosedError: the store was closed.
        """
        limit = time.monotonic() + seconds
        while not arrived.done() and (left := limit - time.monotonic()) > 0:
            await asyncio.wait([arrived], timeout=min(left, _CLOSED_SECONDS))
            if self._store.closed:
                raise StoreClosedError(self._store.root)
        return arrived.done() and arrived.result()

    @property
    def count(self) -> int:
        """How many coroutines wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def _arrive(self, batch: DispatchBatch) -> None:
        """Wake those whose queues ``batch`` has messages of; on the thread that dispatches."""
        if not self._waiting:
            return
        pairs = set(zip(batch.topic_code.tolist(), batch.queue_id.tolist(), strict=True))
        queues = {(batch.topics[code], queue_id) for code, queue_id in pairs}
        with self._lock:
            found = self._take(lambda key: key in queues or key[0].startswith(_LIGHT))
        _call_each(found, _set_done)

    def _take(self, is_wanted: Callable[[_Queue], bool]) -> list[asyncio.Future[bool]]:
        keys = [key for key in self._waiting if is_wanted(key)]
        return [future for key in keys for future in self._waiting.pop(key)]

    def close(self) -> None:
        """End all waits; they raise `StoreClosedError`."""
        with self._lock:
            self._is_closed = True
            found = self._take(lambda key: True)
            end, self._end = self._end, None
        if end is not None:
            end()
        _call_each(found, lambda future: _set_closed(future, self._store.root))


def _call_each(
    futures: list[asyncio.Future[bool]], function: Callable[[asyncio.Future[bool]], None]
) -> None:
    """Call a function with each future, on its loop; one call into each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[bool]]] = {}
    for each in futures:
        by_loop.setdefault(each.get_loop(), []).append(each)
    for loop, own in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its coroutines with it
            loop.call_soon_threadsafe(_call, function, own)


def _call(
    function: Callable[[asyncio.Future[bool]], None], futures: list[asyncio.Future[bool]]
) -> None:
    for each in futures:
        function(each)


def _set_done(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(True)


def _set_looked(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


def _set_closed(future: asyncio.Future[bool], root: str) -> None:
    if not future.done():
        future.set_exception(StoreClosedError(root))

"""`StoreCalls`: what belongs to a wrapped store and to each event loop that uses it."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import attrs
from attrs.validators import ge, instance_of

from reput.errors import StoreClosedError
from reput_aio.arrivals import Arrivals
from reput_aio.flushwaiters import FlushWaiters
from reput_aio.readplacement import ReadPlacement
from reput_aio.threads import Threads, on_own_thread

if TYPE_CHECKING:
    from reput import Store

_Answer = TypeVar("_Answer")
_Args = ParamSpec("_Args")


def checked_seconds(argument: str, given: Any) -> float:
    """Return a number of seconds as it was given; what waits takes less than 0 as 0.

    Raises:
        TypeError: it is not a number.
        ValueError: it is NaN, which no clock reaches.
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{argument}: seconds expected, found {given!r:.100}")
    if math.isnan(given):
        raise ValueError(f"{argument}: seconds expected, found {given!r}")
    return given


@attrs.frozen(kw_only=True)
class AsyncStoreConfig:
    """Options of `AsyncStore`."""

    puts_max: int = attrs.field(default=10_000, validator=[instance_of(int), ge(1)])
    """Puts of one event loop that may be under way; more of them wait before they are stored."""
    threads: int = attrs.field(default=8, validator=[instance_of(int), ge(1)])
    """Threads for calls that may wait for the disk. They start when they are needed."""


@attrs.define(eq=False)
class LoopState:
    """What belongs to one event loop."""

    flushes: FlushWaiters
    reads: ReadPlacement
    puts_max: int
    put_count: int = 0
    """Puts under way; others wait for their turns if it is `puts_max`."""
    turns: deque[asyncio.Future[None]] = attrs.field(factory=deque)
    slow_until: float = 0.0
    """Until when puts are made on threads, by the monotonic clock, s."""

    async def wait_turn(self) -> None:
        """Wait until a put has ended, in whose place another one may begin."""
        turn = asyncio.get_running_loop().create_future()
        self.turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had come
                self.end_turn()
            raise

    def end_turn(self) -> None:
        """Let the next put begin."""
        while self.turns:
            turn = self.turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.put_count -= 1


class StoreCalls:
    """Base of `AsyncStore`: the store, its threads, and the state of each loop."""

    def __init__(self, store: Store, config: AsyncStoreConfig, *, is_owner: bool) -> None:
        """Wrap a store.

        Args:
            store: an open store.
            config: options.
            is_owner: whether `close` closes the store.
        """
        self._store = store
        self._config = config
        self._is_owner = is_owner
        self._log = store.log
        self._is_sync = store.config.flush == "sync"
        self._flush_seconds = store.config.flush_timeout_ms / 1000
        self._threads = Threads(config.threads, store.root)
        self._arrivals = Arrivals(store)
        self._loops: dict[asyncio.AbstractEventLoop, LoopState] = {}
        self._lock = threading.Lock()
        self._consumers: set[Any] = set()
        """Consumers that are to be closed before the store is."""
        self._closing: Future[None] | None = None

    def _check(self) -> None:
        if self._closing is not None or self._store.closed:
            raise StoreClosedError(self._store.root)  # of a forked store `root` raises, too

    def _state(self) -> LoopState:
        """Return what belongs to the running loop, of an open store."""
        if self._closing is not None or self._store.closed:
            self._check()
        loop = asyncio.get_running_loop()
        return self._loops.get(loop) or self._begin_loop(loop)

    def _begin_loop(self, loop: asyncio.AbstractEventLoop) -> LoopState:
        with self._lock:
            for other in [each for each in self._loops if each.is_closed()]:
                del self._loops[other]
            state = self._loops[loop] = LoopState(
                FlushWaiters.of(self._log, loop),
                ReadPlacement(loop.call_soon, self._store.writable),
                self._config.puts_max,
            )
        return state

    async def _call(
        self, function: Callable[_Args, _Answer], *args: _Args.args, **options: _Args.kwargs
    ) -> _Answer:
        self._check()
        return await self._threads.call(functools.partial(function, *args, **options))

    async def _wait_for(self, function: Callable[[], _Answer]) -> _Answer:
        """Call a function that may wait for long: on a thread of its own."""
        self._check()
        return await asyncio.wrap_future(on_own_thread(function))

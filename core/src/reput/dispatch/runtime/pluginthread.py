"""`PluginThread`: makes the calls of one plugin that may take long, one after another.

A request is a call at the end of the queue; a thread that needs its result waits for it. The
plugin's thread starts with the first request. In a store that is written it stays, and between two
requests it does the plugin's work that is due by the clock, or sleeps; but it ends, and starts with
the next request, where the plugin has nothing to flush and its work waits for no time. Without a
thread, as in a store without threads or beyond a limit on processes, the thread that waits makes
the calls.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from reput.signalsafe import SafeEvent, new_lock, start_thread

logger = logging.getLogger(__name__)

__all__ = ["Call", "PluginThread"]

_LONGEST_WAIT: Final = 1.0  # seconds; then a waiting thread checks again


@attrs.define(eq=False)
class Call:
    """One call of one hook: requested, under way or done."""

    plugin: str
    hook: str
    now: Callable[[], float]
    """Returns seconds of the store's disk."""
    lock: threading.RLock
    """Held by a thread that begins the call, gives it up, or is about to wait for it."""
    function: Callable[[], Any]
    """Makes the call."""
    then: Callable[[Call], None] | None = None
    """Called with the call, whose result or error is known, before it counts as done."""
    after: Callable[[Call], None] | None = None
    """Called when the call is done."""
    ends_child: bool = False
    """Whether a child that the hook forks ends when the hook returns in it: the call is made on one
    of the store's own threads, and the child must not go on as if the store were its own."""
    plugin_thread: PluginThread | None = None
    """The thread that the call was requested from; None if the caller makes the call itself."""
    result: Any = None
    error: BaseException | None = None
    is_done: bool = False
    """Whether the call has returned or raised, or will not be made."""
    thread: int = 0
    """The thread that makes the call; 0 if none does yet."""
    advanced: float = 0.0
    """When the call last beat, began or was requested."""
    ended: SafeEvent | None = None
    """Set when the call has ended; created by the first thread that waits for it."""

    def beat(self) -> None:
        """Note that the call advances."""
        self.advanced = self.now()

    @property
    def under_way(self) -> Call:
        """The call that must return before this one can: an earlier one of the plugin, or this."""
        if self.thread or self.plugin_thread is None:
            return self
        return self.plugin_thread.under_way or self

    @property
    def is_made_here(self) -> bool:
        """Whether this thread is inside of the call, and so cannot wait for it."""
        return not self.is_done and self.thread == threading.get_ident()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the call last advanced."""
        return self.now() - self.advanced

    def wait(self, seconds: float = math.inf, *, idle: float = math.inf) -> bool:
        """Wait until the call is done; return whether it is.

        If the plugin has no thread, this thread makes the call.

        Args:
            seconds: return after this time in any case.
            idle: return when the call has not advanced for so long.
        """
        deadline = time.monotonic() + seconds
        if self.plugin_thread is not None:
            self.plugin_thread.wake_or_run()
        while not self.is_done:
            with self.lock:
                self.ended = ended = self.ended or SafeEvent()
            call = self.under_way
            left = min(deadline - time.monotonic(), idle - call.idle_seconds, _LONGEST_WAIT)
            # The ending thread sets `is_done` and then looks for the flag; this one the reverse.
            if call.is_made_here or left <= 0 or self.is_done:
                break
            ended.wait(left)
            if self.plugin_thread is not None:  # its thread could perhaps not be started before
                self.plugin_thread.wake_or_run()
        return self.is_done

    def give_up(self) -> bool:
        """Do not make the call if it has not begun; return whether it will not be made."""
        with self.lock:
            if not self.thread:
                self.is_done = True
        return not self.thread


@attrs.define(eq=False)
class PluginThread:
    """The queue of one plugin's calls, and the thread that makes them."""

    plugin: str
    make: Callable[[Call], object]
    """Makes a call on the thread that it is called on."""
    threads: bool
    """Whether there may be a thread."""
    stays: bool
    """Whether the thread stays while nothing is requested."""
    _lock: threading.RLock = attrs.field(factory=new_lock)
    _queue: deque[Call] = attrs.field(factory=deque)
    """The first may be under way, or done."""
    _awake: SafeEvent = attrs.field(factory=SafeEvent)
    _thread: threading.Thread | None = None
    _gone: SafeEvent = attrs.field(factory=SafeEvent)
    """Set when `_thread` has ended."""
    _maker: int = 0
    """The thread that makes the calls now; 0 if none does."""
    _work: Callable[[], float | None] | None = None

    @property
    def under_way(self) -> Call | None:
        """The call that is being made."""
        return next((call for call in self._queue.copy() if call.thread and not call.is_done), None)

    def post(self, call: Call) -> None:
        """Add a call to the queue."""
        with self._lock:
            self._queue.append(call)
        if self.threads:
            self.wake()

    def wake(self) -> bool:
        """Have the thread look for requests and work; False if there is no thread."""
        if not self.threads:
            return False
        with self._lock:
            if self._thread is None:
                name, self._gone = f"reput-{self.plugin}", SafeEvent()
                thread = threading.Thread(target=self._run, args=(self._gone,), name=name)
                thread.daemon = True
                try:
                    start_thread(thread)
                except RuntimeError as error:
                    # A limit on processes, or the interpreter is ending. On the caller's thread a
                    # call that hangs holds up the caller; but without the call its work would be
                    # lost.
                    logger.warning("no thread plugin=%s error=%s", self.plugin, error)
                    return False
                self._thread = thread
            self._awake.set()  # under the lock: `_run` sees it before it ends
        return True

    def wake_or_run(self) -> None:
        """Have the queue's calls made: by the thread, or on this one without a thread."""
        if not (self.threads and self.wake()):
            self._make_all()

    def do(self, work: Callable[[], float | None], *, stays: bool) -> None:
        """Do the plugin's work between other calls.

        Args:
            work: requests a call if one is due; returns seconds until the next, None for never.
            stays: whether the thread stays while nothing is requested and no work waits for a time.
        """
        self._work, self.stays = work, self.stays and stays
        self.wake()

    def end(self) -> None:
        """Let the thread end when the queue is empty; wait for it unless a call is under way."""
        self.stays, self._work = False, None
        thread, gone = self._thread, self._gone
        self._awake.set()
        if thread is not None and self.under_way is None and gone.wait(_LONGEST_WAIT):
            with contextlib.suppress(RuntimeError):  # `start_thread` ran it on another thread
                thread.join(_LONGEST_WAIT)

    # ------------------------------------------------------------------ making calls

    def _make_all(self, *, on_own_thread: bool = False) -> None:
        """Make the calls of the queue, unless another thread does."""
        me = threading.get_ident()
        with self._lock:
            outer = self._maker
            if outer not in (0, me):
                return
            self._maker = me
        try:
            while (call := self._next(outer)) is not None:
                call.ends_child = on_own_thread
                self.make(call)
        finally:
            if self._maker == me:
                self._maker = outer

    def _next(self, outer: int) -> Call | None:
        """Return the call to make next; None if no call waits, and another thread may make calls.

        Also None in a signal handler that interrupted a call on this thread: the calls after that
        one must wait. A handler that came before the call began makes it.
        """
        with self._lock:
            while self._queue and self._queue[0].is_done:
                self._queue.popleft()
            if self._queue and not self._queue[0].thread:
                return self._queue[0]
            self._maker = outer
            return None

    def _run(self, gone: SafeEvent) -> None:
        while True:
            self._awake.clear()  # before the calls: a wake from here on is seen after them
            self._make_all(on_own_thread=True)
            work = self._work
            seconds = None if work is None else work()
            with self._lock:
                waits = seconds is not None or self._awake.is_set()
                if not (self._queue or self.stays or waits):
                    self._thread = None
                    break
            self._awake.wait(seconds)
        gone.set()

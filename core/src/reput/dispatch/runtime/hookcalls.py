"""`HookCalls`: every call of a plugin's hook that is requested or under way, and since when.

Hooks that are called rarely and may hang (open, recover, flush, work, trim, hold, close) are called
on the plugin's own thread, one after another: a request is a `Call`, and a caller waits for it
while it advances, or for a time. A call that has not returned by then goes on alone. Calls that
other threads make, as those of `reput_dispatch`, are entered here, too: one place knows whether a
plugin can still change a file. The store's lock is released when no plugin can.

A `PluginThread` starts with the first request. In a store that is written it stays, and between two
requests it does the plugin's work that is due by the clock, or sleeps; but it ends, and starts with
the next request, where the plugin has nothing to flush and its work waits for no time. Without a
thread, as in a store without threads or beyond a limit on processes, the thread that waits makes
the calls.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from reput.errors import StoreClosedError
from reput.files.system.flushing import heart
from reput.signalsafe import SafeEvent, new_lock, start_thread

logger = logging.getLogger(__name__)

_OPEN: Final = "reput_open"
_CLOSE: Final = "reput_close"
_EXIT_CODE: Final = 70
_LONGEST_WAIT: Final = 1.0  # seconds; then a waiting thread checks again


@attrs.define(eq=False, repr=False)
class Call:
    """One call of one hook: requested, under way or done."""

    calls: HookCalls
    """All calls of the store. Their lock is held by a thread that begins the call, gives it up, or
    is about to wait for it."""
    plugin: str
    hook: str
    function: Callable[[], Any]
    """Makes the call."""
    then: Callable[[Call], None] | None = None
    """Called with the call, whose result or error is known, before it counts as done."""
    plugin_thread: PluginThread | None = None
    """The thread that the call was requested from; None if the caller makes the call itself."""
    result: Any = None
    error: BaseException | None = None
    is_done: bool = False
    """Whether the call has returned or raised, or will not be made."""
    thread: int = 0
    """The thread that makes the call; 0 if none does yet."""
    looked: dict[None, float] = attrs.field(factory=dict)
    """When somebody first looked after the call was requested, began or last advanced. Cleared
    when it advances: by one call of C, as that is with each file that a plugin flushes."""
    ended: SafeEvent | None = None
    """Set when the call has ended; created by the first thread that waits for it."""
    after: Callable[[Call], None] | None = None
    """Called when the call is done; set while it is under way, as its plugin counts as stalled."""

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
        """Seconds in which the call has not advanced, since somebody first looked."""
        now = self.calls.now()
        return now - self.looked.setdefault(None, now)

    def wait(self, seconds: float = math.inf, *, idle: float = math.inf) -> bool:
        """Wait until the call is done; return whether it is.

        If the plugin has no thread, this thread makes the call.

        Args:
            seconds: return after this time in any case.
            idle: return when the call has not advanced for so long.
        """
        deadline = time.monotonic() + seconds
        while True:
            if self.plugin_thread is not None and not self.is_done:
                self.plugin_thread.make_all()  # its thread could perhaps not be started before
            if self.is_done:
                return True
            with self.calls.lock:
                self.ended = ended = self.ended or SafeEvent()
            call = self.under_way
            left = min(deadline - time.monotonic(), idle - call.idle_seconds, _LONGEST_WAIT)
            # The ending thread sets `is_done` and then looks for the flag; this one the reverse.
            if call.is_made_here or left <= 0 or self.is_done:
                return self.is_done
            ended.wait(left)

    def give_up(self) -> bool:
        """Do not make the call if it has not begun; return whether it will not be made."""
        with self.calls.lock:
            if not self.thread:
                self.is_done = True
                self.calls.entered.pop(self, None)
        return not self.thread


@attrs.define(eq=False, repr=False)
class PluginThread:
    """The thread that makes the requested calls of one plugin, in their order."""

    plugin: str
    calls: HookCalls
    stays: bool
    """Whether the thread stays while nothing is requested."""
    _awake: SafeEvent = attrs.field(factory=SafeEvent)
    _thread: threading.Thread | None = None
    _gone: SafeEvent | None = None
    """Set when `_thread` has ended."""
    _work: Callable[[], float | None] | None = None

    @property
    def _first(self) -> Call | None:
        """The first requested call that is not done."""
        for call in self.calls.entered.copy():
            if call.plugin_thread is self and not call.is_done:
                return call
        return None

    @property
    def under_way(self) -> Call | None:
        """The requested call that is being made."""
        call = self._first
        return call if call is not None and call.thread else None

    def wake(self) -> bool:
        """Have the thread look for requests and work; False if it has none."""
        if not self.calls.threads:
            return False
        with self.calls.lock:
            if self._thread is None:
                name, gone = f"reput-{self.plugin}", SafeEvent()
                thread = threading.Thread(target=self._run, args=(gone,), name=name)
                thread.daemon = True
                try:
                    start_thread(thread)
                except RuntimeError as error:
                    # A limit on processes, or the interpreter is ending. On the caller's thread a
                    # call that hangs holds up the caller; but without the call its work would be
                    # lost.
                    logger.warning("no thread plugin=%s error=%s", self.plugin, error)
                    return False
                if self._thread is None:  # else a signal handler came, and has started one
                    self._thread, self._gone = thread, gone
            self._awake.set()  # under the lock: `_run` sees it before it ends
        return True

    def do(self, work: Callable[[], float | None], *, stays: bool) -> None:
        """Do the plugin's work between other calls.

        Args:
            work: requests a call if one is due; returns seconds until the next, None for never.
            stays: whether the thread stays while nothing is requested and no work waits for a time.
        """
        self._work, self.stays = work, self.stays and stays
        self.wake()

    def end(self) -> None:
        """Let the thread end when no call waits; wait for it unless a call is under way."""
        self.stays, self._work = False, None
        thread, gone = self._thread, self._gone
        self._awake.set()
        if thread is None or gone is None or self.under_way is not None:
            return
        if gone.wait(_LONGEST_WAIT):
            with contextlib.suppress(RuntimeError):  # `start_thread` ran it on another thread
                thread.join(_LONGEST_WAIT)

    def make_all(self, *, is_own: bool = False) -> None:
        """Have the requested calls made: by the plugin's thread, or on this one without it.

        The calls after one that is under way are made by the thread that makes it. So a signal
        handler that interrupted a call on this thread makes none; one that came before the call
        began makes it.

        Args:
            is_own: whether this is the plugin's thread.
        """
        if not is_own and self.calls.threads and self.wake():
            return
        # Two threads may find the same call: one begins it.
        while (call := self._first) is not None and not call.thread:
            self.calls.make(call, ends_child=is_own)

    def _run(self, gone: SafeEvent) -> None:
        while True:
            self._awake.clear()  # before the calls: a wake from here on is seen after them
            try:
                self.make_all(is_own=True)
            except Exception:
                # As where the log cannot be read. The thread must go on: later calls wait for it.
                logger.exception("call not followed up plugin=%s", self.plugin)
                continue  # with the calls after it
            work = self._work
            seconds = None if work is None else work()
            with self.calls.lock:
                if self._gone is not gone:  # a signal handler interrupted its start: one is enough
                    self._awake.set()
                    break
                waits = seconds is not None or self._awake.is_set()
                if not (self.stays or waits):
                    self._thread = None
                    break
            self._awake.wait(seconds)
        gone.set()


@attrs.define(eq=False, repr=False)
class HookCalls:
    """The calls of one store. Thread-safe, also if a signal handler interrupts a method."""

    root: str = ""
    """The store's directory, for error texts."""
    threads: bool = True
    """Whether plugins have threads; if false, the thread that waits for a call makes it."""
    now: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    keeps_threads: bool = False
    """Whether a plugin's thread stays while nothing is requested, as in a store that is written."""
    lock: threading.RLock = attrs.field(factory=new_lock)
    """Guards calls, plugins' threads, and what `RunnerContext` keeps of plugins."""
    entered: dict[Call, None] = attrs.field(factory=dict)
    """Calls that are requested or under way, oldest first. May contain one that is done, after an
    exception of a signal handler."""
    _plugin_threads: dict[str, PluginThread] = attrs.field(factory=dict)
    _closed: dict[str, None] = attrs.field(factory=dict)
    """Plugins that were closed, and not opened again yet."""
    _is_refusing: bool = False
    _after_last: Callable[[], None] | None = None
    _process: int = attrs.field(factory=os.getpid)

    # ------------------------------------------------------------------ making a call

    # A signal handler may raise whenever a function begins or a call has returned
    # (`reput.signalsafe`). So a ``try`` begins before a call is entered, and its ``finally`` comes
    # to the first assignment before a handler can run. `_end` only cleans up.

    def make(
        self, call: Call, may: Callable[[], bool] | None = None, *, ends_child: bool = False
    ) -> bool:
        """Make a call on this thread; its result or error is in the call.

        Args:
            call: the call.
            may: returns, under `lock`, whether the call may be made.
            ends_child: whether a child that the hook forks ends when the hook returns in it: this
                is one of the store's own threads, and the child must not go on as if the store were
                its own.

        Returns:
            False if the call was not made here.
        """
        me, outer, heart.beat = threading.get_ident(), heart.beat, call.looked.clear
        try:
            with self.lock:
                if not ((may is None or may()) and self.begin(call)):
                    return False
            try:
                call.result = call.function()
            except BaseException as error:  # the plugin's, SystemExit included
                call.error = error
            if ends_child and os.getpid() != self._process:
                os._exit(_EXIT_CODE)
            if call.then is not None:
                call.then(call)
            if call.error is not None and is_users_interrupt(call.error):
                raise call.error
            return True
        finally:
            if call.thread == me:  # else another thread has begun it, or none
                call.is_done = True
            heart.beat = outer
            if call.is_done:
                self._end(call)

    def begin(self, call: Call) -> bool:
        """Enter a call that this thread, which holds `lock`, is about to make.

        Returns:
            False if it must not be made: it was made or given up already, no more calls are, or the
            plugin is inside of the same hook on another thread.
        """
        me = threading.get_ident()
        call.looked.clear()
        if call.plugin_thread is None:  # else the plugin's thread makes its calls one by one
            for other in self.entered.copy():
                is_same = other.plugin == call.plugin and other.hook == call.hook
                if is_same and not other.is_done:
                    return False
        # No function is called from here on: a signal handler that came between the question and
        # the answer could make the call, too, or close the store.
        if call.thread or call.is_done:
            return False
        if self._is_refusing and call.hook != _CLOSE:
            call.is_done = True
            return False
        call.thread = me
        self.entered[call] = None
        return True

    def _end(self, call: Call) -> None:
        try:
            # A thread that sets `after` then looks whether the call is done; this one the reverse.
            if call.after is not None:
                call.after(call)
        finally:
            self.entered.pop(call, None)
            if call.ended is not None:
                call.ended.set()
            if self._after_last is not None:
                self._ring()

    # ------------------------------------------------------------------ on the plugin's thread

    def request(
        self,
        plugin: str,
        hook: str,
        function: Callable[[], Any],
        then: Callable[[Call], None] | None = None,
    ) -> Call:
        """Have a plugin's thread make a call, after those requested earlier; return the call.

        Raises:
            StoreClosedError: no more calls are made.
        """
        with self.lock:
            if self._is_refusing and hook != _CLOSE:
                raise StoreClosedError(self.root)
            if hook == _OPEN:
                self._closed.pop(plugin, None)
            thread = self._plugin_threads.get(plugin) or self.thread_of(plugin)
            call = Call(self, plugin, hook, function, then, thread)
            self.entered[call] = None
            if self.threads:
                thread.wake()
        return call

    def thread_of(self, plugin: str) -> PluginThread:
        """Return the thread of a plugin; it runs once something is requested."""
        with self.lock:
            found = self._plugin_threads.get(plugin)
            if found is None:
                found = PluginThread(plugin, self, self.keeps_threads)
                self._plugin_threads[plugin] = found
            return found

    def end_thread(self, plugin: str) -> None:
        """Let the thread of a plugin that is closed end."""
        with self.lock:
            plugin_thread = self._plugin_threads.pop(plugin, None)
        if plugin_thread is not None:
            plugin_thread.end()

    def close_plugin(self, plugin: str, hook: Callable[[], Any] | None, seconds: float) -> None:
        """Have a plugin close its files, unless it stays inside of another call; once an opening.

        Args:
            plugin: the plugin's name.
            hook: its `reput_close`; None if it has none.
            seconds: how long to wait while the call does not advance; and for another call that
                has advanced since then, as in an opening that was interrupted.
        """
        if hook is None or plugin in self._closed:
            return
        for call in self.running(plugin):
            if call.thread and not call.wait(seconds, idle=seconds):
                logger.error("plugin hangs and is left plugin=%s hook=%s", plugin, call.hook)
                return
        call = self.request(plugin, _CLOSE, hook)
        # A handler that closes the store may come from here on, before a resume opens the plugin.
        self._closed[plugin] = None
        if not call.wait(idle=seconds):
            logger.error("plugin does not return from closing plugin=%s", plugin)
        elif call.error is not None:
            logger.error("plugin failed while closing plugin=%s error=%r", plugin, call.error)

    # ------------------------------------------------------------------ what is under way

    def running(self, plugin: str | None = None) -> list[Call]:
        """Return the calls of a plugin, or of all, that have not returned, oldest first."""

        def is_running(call: Call) -> bool:
            return not call.is_done and (plugin is None or call.plugin == plugin)

        return [*filter(is_running, self.entered.copy())]

    # ------------------------------------------------------------------ the end

    def refuse(self) -> None:
        """Begin no more calls, not even requested ones, except calls that close a plugin."""
        with self.lock:
            self._is_refusing = True
        for call in self.running():
            if call.hook != _CLOSE and call.give_up():
                self._end(call)

    def after_last(self, callback: Callable[[], None]) -> list[Call]:
        """Call ``callback`` once when no call is under way any more, after `refuse`.

        It is called now, or by the thread of the last call. Threads of plugins end.

        Returns:
            The calls that are still under way.
        """
        self._after_last = callback  # before `_ring`: a call that ends from here on sees it
        for plugin_thread in list(self._plugin_threads.values()):
            plugin_thread.end()
        return [] if self._ring() else self.running()

    def _ring(self) -> bool:
        """Run the last callback if no call is under way; return whether that was done here."""
        after = None
        try:
            with self.lock:
                if self._after_last is not None and not self.running():
                    after, self._after_last = self._after_last, None
        finally:
            if after is not None:
                after()
        return after is not None


def is_users_interrupt(error: BaseException) -> bool:
    """Whether ``error`` is Ctrl-C, which comes on the main thread and is not a plugin's failure."""
    on_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and on_main


def texts_of(calls: Iterable[Call]) -> str:
    """Return a text that names the calls that have not returned."""
    texts = (f"plugin {call.plugin!r} has not returned from {call.hook}" for call in calls)
    return ", ".join(dict.fromkeys(texts))

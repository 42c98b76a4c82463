"""`HookCalls`: every call of a plugin's hook that is requested or under way, and since when.

Hooks that are called rarely and may hang (open, recover, flush, work, trim, hold, close) are called
on the plugin's own thread (`reput.dispatch.runtime.pluginthread`), one after another. The caller
waits while the call advances, or for a time; a call that has not returned by then goes on alone.
Calls that other threads make, as those of `reput_dispatch`, are entered here, too: one place knows
whether a plugin can still change a file. The store's lock is released when no plugin can.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from reput.dispatch.runtime.pluginthread import Call, PluginThread
from reput.errors import StoreClosedError
from reput.files.system.parallelflush import heart
from reput.signalsafe import new_lock

logger = logging.getLogger(__name__)

__all__ = ["HookCalls", "is_users_interrupt", "texts_of"]

_CLOSE: Final = "reput_close"
_EXIT_CODE: Final = 70


def is_users_interrupt(error: BaseException) -> bool:
    """Whether ``error`` is Ctrl-C, which comes on the main thread and is not a plugin's failure."""
    on_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and on_main


@attrs.define(eq=False)
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
    # Oldest first. May contain a call that is done, after an exception of a signal handler.
    _entered: dict[Call, None] = attrs.field(factory=dict)
    _plugin_threads: dict[str, PluginThread] = attrs.field(factory=dict)
    _is_refusing: bool = False
    _after_last: Callable[[], None] | None = None
    _process: int = attrs.field(factory=os.getpid)

    # ------------------------------------------------------------------ on this thread

    # A signal handler may raise whenever a function begins or a call has returned
    # (`reput.signalsafe`). So a ``try`` begins before a call is entered, and its ``finally`` begins
    # with an assignment, before which no handler can run. `_end` only cleans up.

    def make(self, call: Call, may: Callable[[Call], bool] | None = None) -> bool:
        """Make a call on this thread; its result or error is in the call.

        Args:
            call: the call.
            may: calls `begin` if the call may be made, and returns whether it has.

        Returns:
            False if the call was not made.
        """
        outer, heart.beat = heart.beat, call.beat
        try:
            if not (self.begin(call) if may is None else may(call)):
                return False
            try:
                call.result = call.function()
            except BaseException as error:  # the plugin's, SystemExit included
                call.error = error
            if call.ends_child and os.getpid() != self._process:
                os._exit(_EXIT_CODE)
            if call.then is not None:
                call.then(call)
            if call.error is not None and is_users_interrupt(call.error):
                raise call.error
            return True
        finally:
            call.is_done = True
            heart.beat = outer
            self._end(call)

    def begin(self, call: Call) -> bool:
        """Enter a call that this thread is about to make.

        Returns:
            False if it must not be made: it was made or given up already, no more calls are, or the
            plugin is inside of the same hook on another thread.
        """
        with self.lock:
            if call.thread or call.is_done or (self._is_refusing and call.hook != _CLOSE):
                return False
            if call.plugin_thread is None:  # else the plugin's thread makes its calls one by one
                for other in self._entered.copy():
                    is_same = other.plugin == call.plugin and other.hook == call.hook
                    if is_same and not other.is_done:
                        return False
            call.advanced = self.now()
            call.thread = threading.get_ident()
            self._entered[call] = None
            return True

    def _end(self, call: Call) -> None:
        after, call.after = call.after, None
        try:
            if after is not None and call.thread:
                after(call)
        finally:
            self._entered.pop(call, None)
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
        *,
        then: Callable[[Call], None] | None = None,
        after: Callable[[Call], None] | None = None,
    ) -> Call:
        """Have a plugin's thread make a call, after those requested earlier; return the call.

        Args:
            plugin: the plugin's name.
            hook: the hook's name.
            function: makes the call.
            then: see `Call`.
            after: see `Call`.

        Raises:
            StoreClosedError: no more calls are made.
        """
        with self.lock:
            if self._is_refusing and hook != _CLOSE:
                raise StoreClosedError(self.root)
            plugin_thread = self.thread_of(plugin)
            call = Call(plugin, hook, self.now, self.lock, function, then, after)
            call.plugin_thread, call.advanced = plugin_thread, self.now()
            self._entered[call] = None
            plugin_thread.post(call)
        return call

    def thread_of(self, plugin: str) -> PluginThread:
        """Return the thread of a plugin; it runs once something is requested."""
        with self.lock:
            plugin_thread = self._plugin_threads.get(plugin)
            if plugin_thread is None:
                plugin_thread = self._plugin_threads[plugin] = PluginThread(
                    plugin, self.make, threads=self.threads, stays=self.keeps_threads
                )
            return plugin_thread

    def end_thread(self, plugin: str) -> None:
        """Let the thread of a plugin that is closed end."""
        with self.lock:
            plugin_thread = self._plugin_threads.pop(plugin, None)
        if plugin_thread is not None:
            plugin_thread.end()

    def close_plugin(self, plugin: str, hook: Callable[[], Any] | None, seconds: float) -> None:
        """Have a plugin close its files, unless it stays inside of another call.

        Args:
            plugin: the plugin's name.
            hook: its `reput_close`; None if it has none.
            seconds: how long to wait while the call does not advance; and for another call that
                has advanced since then, as in an opening that was interrupted.
        """
        if hook is None:
            return
        hanging = [
            call
            for call in self.running(plugin)
            if call.thread and not call.wait(seconds, idle=seconds)
        ]
        if hanging:
            logger.error("plugin hangs and is left plugin=%s hook=%s", plugin, hanging[0].hook)
            return
        call = self.request(plugin, _CLOSE, hook)
        if not call.wait(idle=seconds):
            logger.error("plugin does not return from closing plugin=%s", plugin)
        elif call.error is not None:
            logger.error("plugin failed while closing plugin=%s error=%r", plugin, call.error)

    # ------------------------------------------------------------------ what is under way

    def running(self, plugin: str | None = None) -> list[Call]:
        """Return the calls of a plugin, or of all, that have not returned, oldest first."""
        return [
            call
            for call in self._entered.copy()
            if not call.is_done and (plugin is None or call.plugin == plugin)
        ]

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


def texts_of(calls: Iterable[Call]) -> str:
    """Return a text that names the calls that have not returned."""
    texts = (f"plugin {call.plugin!r} has not returned from {call.hook}" for call in calls)
    return ", ".join(dict.fromkeys(texts))

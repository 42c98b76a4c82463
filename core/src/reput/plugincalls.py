"""Calls of plugins' hooks that may hang: made on a thread that can be left behind.

For what is called rarely: opening, recovering, flushing, closing. A caller waits as long as it
likes; a call that has not returned by then goes on alone, and its plugin is not called again
until it has.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from reput.flags import Flag
from reput.forked import end_forked_thread

__all__ = ["Call", "PluginCalls", "is_users_interrupt"]


@attrs.define(eq=False)
class Call:
    """One call of one hook, running or done."""

    plugin: str
    hook: str
    started: float
    """`time.monotonic` when it began."""
    result: Any = None
    error: BaseException | None = None
    facts: Any = None
    """What the caller wants to remember with it."""
    _done: Flag = attrs.field(factory=Flag)

    @property
    def is_done(self) -> bool:
        """Whether it has returned or raised."""
        return self._done.is_set()

    def wait(self, seconds: float | None) -> bool:
        """Return whether it is done, at the latest after ``seconds``."""
        return self._done.wait(seconds)

    def run(self, function: Callable[[], Any]) -> None:
        """Make the call on this thread."""
        try:
            self.result = function()
        except BaseException as error:  # the plugin's own, SystemExit and all
            if is_users_interrupt(error):
                raise
            self.error = error
        finally:
            self._done.set()


def is_users_interrupt(error: BaseException) -> bool:
    """Whether it is Ctrl-C: that reaches the main thread only, and is no plugin's fault."""
    on_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and on_main


@attrs.define(eq=False)
class PluginCalls:
    """Makes such calls for one store; ``threads=False`` makes them where they are asked for."""

    threads: bool = True
    _running: dict[str, Call] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def start(self, plugin: str, hook: str, function: Callable[[], Any]) -> Call:
        """Begin a call."""
        call = Call(plugin, hook, time.monotonic())
        if not self.threads:
            call.run(function)
            return call
        with self._lock:
            self._running[plugin] = call
        thread = threading.Thread(
            target=self._run, args=(call, function), name=f"reput-{plugin}-{hook}", daemon=True
        )
        thread.start()
        return call

    def _run(self, call: Call, function: Callable[[], Any]) -> None:
        process = os.getpid()

        def made_here() -> Any:
            try:
                return function()
            finally:
                end_forked_thread(process)

        call.run(made_here)
        with self._lock:
            if self._running.get(call.plugin) is call:
                del self._running[call.plugin]

    def running(self, plugin: str) -> Call | None:
        """The call that the plugin is in, if it is in one."""
        with self._lock:
            return self._running.get(plugin)

"""`PluginCalls`: every call of a plugin's hook that is under way, and since when.

Hooks that are called rarely (open, recover, flush, close) and may hang are called on a thread that
can be abandoned. The caller waits while the call advances, or for a time; a call that has not
returned by then goes on alone. Calls of the dispatching and working threads are entered here, too,
so that one place knows whether a plugin can still change a file: the store's lock is released when
no plugin can.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import attrs

from reput.dispatch.running.forking import end_forked_thread
from reput.errors import StoreClosedError
from reput.files.system.heartbeat import heart_of_thread, set_heart
from reput.flags import start_thread
from reput.locks import new_lock

logger = logging.getLogger(__name__)

__all__ = ["Call", "PluginCalls", "is_users_interrupt"]

_LONGEST_WAIT: Final = 1.0  # seconds; then a waiting thread checks again


@attrs.define(eq=False)
class Call:
    """One call of one hook, running or done."""

    plugin: str
    hook: str
    calls: PluginCalls
    """The store's calls, which this call is one of."""
    started: float
    """When the call began, in seconds of the store's disk (`reput.files.Disk.monotonic`)."""
    advanced: float
    """When the call last beat; when it began if it has not."""
    result: Any = None
    error: BaseException | None = None
    facts: Any = None
    """Data that the caller keeps with the call."""
    is_done: bool = False
    """Whether the call has returned or raised, or will not be made."""
    is_given: bool = False
    """Whether a thread of its own was started for the call."""
    asker: int = 0
    """The thread that entered the call, for `PluginCalls.make`."""
    thread: int = 0
    """The thread that makes the call; 0 if none does yet."""
    after: Callable[[Call], None] | None = None
    """Called when the call has ended."""
    outer_heart: Callable[[], None] | None = None
    """The heart (`reput.files.system.heartbeat`) of the call's thread before the call."""

    def beat(self) -> None:
        """Note that the call advances."""
        self.advanced = self.calls.now()

    @property
    def is_made_here(self) -> bool:
        """Whether this thread is inside of the call: a signal handler cannot wait for that."""
        return not self.is_done and self.thread == threading.get_ident()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the call last advanced."""
        return self.calls.now() - self.advanced

    def wait(self, seconds: float | None) -> bool:
        """Wait until the call is done, at most ``seconds``; return whether it is."""
        return self.calls.wait_any((self,), seconds)

    def wait_while_advancing(self, seconds: float) -> bool:
        """Wait until the call is done, or has not advanced for ``seconds``; return whether done."""
        began = self.calls.now()
        while not self.is_done:
            if self.is_made_here:
                return False
            left = max(began, self.advanced) + seconds - self.calls.now()
            if left <= 0:
                return False
            self.wait(left)
        return True


def is_users_interrupt(error: BaseException) -> bool:
    """Whether ``error`` is Ctrl-C, which comes on the main thread and is no plugin's failure."""
    on_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and on_main


@attrs.define(eq=False)
class PluginCalls:
    """The calls of one store. Thread-safe, also if a signal handler interrupts a method."""

    root: str = ""
    """The store's directory, for error texts."""
    threads: bool = True
    """Whether `start` makes calls on threads of their own; if false, on the caller's."""
    now: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    # Oldest first. May contain a call that is done, after an exception of a signal handler.
    _entered: dict[Call, None] = attrs.field(factory=dict)
    # No `threading.Condition`: if a signal handler raised between its Python frames, or closed the
    # store there, its lock would stay held.
    _lock: threading.RLock = attrs.field(factory=new_lock)
    _bells: list[threading.Lock] = attrs.field(factory=list)
    """One locked lock for each waiting thread, released when a call has ended."""
    _is_refusing: bool = False
    _after_last: Callable[[], None] | None = None

    # A signal handler may raise whenever a function begins or a call has returned (`reput.flags`).
    # So a call is first made ready, which enters nothing; then a ``try`` begins; then the call is
    # entered and made; and ``finally`` begins with ``call.is_done = True``, an assignment, before
    # which no handler can run. `end` only cleans up.

    # ------------------------------------------------------------------ on this thread

    def ready(self, plugin: str, hook: str, after: Callable[[Call], None] | None = None) -> Call:
        """Return a new call that may be entered; `running` does not list it before that."""
        started = self.now()
        return Call(plugin, hook, self, started, started, after=after)

    def begin(self, call: Call) -> bool:
        """Enter a call that this thread is about to make.

        Returns:
            False after `refuse`: the call must not be made.
        """
        # Set before entering: a handler decides by these whether it can wait for the call.
        call.outer_heart = heart_of_thread()
        call.thread = threading.get_ident()
        if not self.enter(call):
            return False
        set_heart(call.beat)
        return True

    def end(self, call: Call) -> None:
        """Clean up after a call that was begun, or was perhaps not begun, on this thread."""
        call.is_done = True
        try:
            if call.thread:
                set_heart(call.outer_heart)
                if call.after is not None:
                    call.after(call)  # before the waiting threads are woken
        finally:
            self._clear(call)

    def _clear(self, call: Call) -> None:
        self._entered.pop(call, None)
        # Both sides write before they read: this side that the call is done, then the bells; a
        # waiting thread its bell, then whether the call is done.
        if self._bells or self._after_last is not None:
            self._ring()

    def _ring(self) -> None:
        """Wake all threads that wait for a call; after the last call, run the last callback."""
        after, bells = None, []
        try:
            with self._lock:
                if self._after_last is not None and not self.running():
                    after, self._after_last = self._after_last, None
                bells, self._bells = self._bells, []
        finally:
            for bell in bells:
                bell.release()
            if after is not None:
                after()

    # ------------------------------------------------------------------ on a thread of its own

    def start(
        self,
        plugin: str,
        hook: str,
        function: Callable[[], Any],
        *,
        is_last: bool = False,
        after: Callable[[Call], None] | None = None,
    ) -> Call:
        """Start a call that may not return, without waiting for it; return it.

        Args:
            plugin: the plugin's name.
            hook: the hook's name.
            function: makes the call.
            is_last: make the call even after `refuse`.
            after: called when the call has ended.

        Raises:
            StoreClosedError: no more calls are made.
        """
        call = self.ready(plugin, hook, after)
        call.asker = threading.get_ident()
        try:
            if not self.enter(call, is_last=is_last):
                raise StoreClosedError(self.root)
            self.make(call, function)
            return call
        finally:
            self.leave(call)

    def close_plugin(
        self, plugin: str, hook: Callable[[], Any] | None, seconds: float, *, is_last: bool = False
    ) -> None:
        """Have a plugin close its files, unless it is inside of another call.

        Args:
            plugin: the plugin's name.
            hook: its `reput_close`; None if it has none.
            seconds: how long to wait while the call does not advance.
            is_last: make the call even after `refuse`.
        """
        if hook is None:
            return
        hanging = self.running(plugin)
        if hanging:
            logger.error("plugin hangs and is left plugin=%s hook=%s", plugin, hanging[0].hook)
            return
        call = self.start(plugin, "reput_close", hook, is_last=is_last)
        if not call.wait_while_advancing(seconds):
            logger.error("plugin does not return from closing plugin=%s", plugin)
        elif call.error is not None:
            logger.error("plugin failed while closing plugin=%s error=%r", plugin, call.error)

    def enter(self, call: Call, *, is_last: bool = False) -> bool:
        """Enter a call that `make` is about to make; the caller calls `leave` in ``finally``.

        Returns:
            False after `refuse`: the call must not be made.
        """
        with self._lock:
            if self._is_refusing and not is_last:
                return False
            self._entered[call] = None
            return True

    def leave(self, call: Call) -> None:
        """Give up a call that was not made, because of an exception; a call under way goes on."""
        with self._lock:
            if call.is_given or call.thread:
                return
            call.is_done = True
        self._clear(call)

    def make(self, call: Call, function: Callable[[], Any]) -> None:
        """Make a call that was entered, on a thread of its own if possible.

        Does nothing if the call was made already, or given up.
        """
        if self.threads:
            thread = threading.Thread(
                target=self._run_alone,
                args=(call, function),
                name=f"reput-{call.plugin}-{call.hook}",
                daemon=True,
            )
            try:
                start_thread(thread)
                call.is_given = True
                return
            except RuntimeError as error:
                # A limit on processes, or the interpreter is ending. On this thread a call that
                # hangs holds up the caller; but without the call its work would be lost.
                logger.warning(
                    "no thread for a call, made on the caller's plugin=%s hook=%s error=%s",
                    call.plugin,
                    call.hook,
                    error,
                )
        self._run(call, function)

    def _run_alone(self, call: Call, function: Callable[[], Any]) -> None:
        process = os.getpid()

        def made_here() -> Any:
            try:
                return function()
            finally:
                end_forked_thread(process)

        self._run(call, made_here)

    def _run(self, call: Call, function: Callable[[], Any]) -> None:
        me, outer, mine = threading.get_ident(), heart_of_thread(), False
        try:
            with self._lock:
                # Given up, or made by a signal handler on the thread that entered it.
                if call.thread or call.is_done:
                    return
                call.outer_heart, call.thread, mine = outer, me, True
            set_heart(call.beat)
            call.result = function()
        except BaseException as error:  # the plugin's, SystemExit included
            call.error = error
            if is_users_interrupt(error):
                raise
        finally:
            if mine:
                call.is_done = True
                self.end(call)

    # ------------------------------------------------------------------ what is under way

    def running(self, plugin: str | None = None) -> list[Call]:
        """Return the calls of a plugin, or of all, that have not returned, oldest first."""
        calls = [call for call in self._entered.copy() if not call.is_done]
        return calls if plugin is None else [call for call in calls if call.plugin == plugin]

    def wait_any(self, calls: Collection[Call], seconds: float | None) -> bool:
        """Wait until one of ``calls`` is done, at most ``seconds``; return whether one is."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            bell = threading.Lock()
            bell.acquire()
            with self._lock:
                self._bells = [*self._bells, bell]
            if any(call.is_done for call in calls):
                return True
            left = _LONGEST_WAIT if deadline is None else deadline - time.monotonic()
            if left <= 0 or not bell.acquire(timeout=min(left, _LONGEST_WAIT)):
                with self._lock:
                    self._bells = [other for other in self._bells if other is not bell]
                if left <= _LONGEST_WAIT and deadline is not None:
                    return any(call.is_done for call in calls)

    def wait_outside(self, plugin: str, seconds: float) -> bool:
        """Wait until no call of a plugin is under way.

        Returns:
            False if a call of it is still running and has not advanced for ``seconds``.
        """
        return all(call.wait_while_advancing(seconds) for call in self.running(plugin))

    # ------------------------------------------------------------------ the end

    def refuse(self) -> None:
        """Begin no more calls: plugins are about to be closed."""
        with self._lock:
            self._is_refusing = True

    def after_last(self, callback: Callable[[], None]) -> list[Call]:
        """Call ``callback`` once when no call is under way any more, after `refuse`.

        It is called now, or by the thread of the last call.

        Returns:
            The calls that are still under way.
        """
        with self._lock:
            self._after_last = callback  # before `running`: a call that ends from here on sees it
            running = self.running()
        if not running:
            self._ring()
        return running


def texts_of(calls: Iterable[Call]) -> str:
    """Return a text that names the calls that have not returned."""
    texts = (f"plugin {call.plugin!r} has not returned from {call.hook}" for call in calls)
    return ", ".join(dict.fromkeys(texts))

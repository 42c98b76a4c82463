"""Every call of a plugin's hook that is under way: of which plugin, and since when.

Hooks that are called rarely (opening, recovering, flushing, closing) and may hang are called on a
thread that can be left behind. A caller waits as long as the call advances, or as long as it likes;
a call that has not returned by then goes on alone. The threads that dispatch and that work by the
clock enter their calls here as well, so that one place knows whether a plugin can still change
a file: the store's lock is given up when none can.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import attrs

from reput.dispatch.forking import end_forked_thread
from reput.errors import StoreClosedError
from reput.files.heartbeat import heart_of_thread, set_heart
from reput.flags import start_thread
from reput.locks import new_lock

logger = logging.getLogger(__name__)

__all__ = ["Call", "PluginCalls", "is_users_interrupt"]

_LONGEST_WAIT: Final = 1.0  # seconds; then a waiter looks for itself


@attrs.define(eq=False)
class Call:
    """One call of one hook, running or done."""

    plugin: str
    hook: str
    calls: PluginCalls
    """Where it was entered."""
    started: float
    """When it began, in seconds of the store's disk (`reput.files.Disk.monotonic`)."""
    advanced: float
    """When it last told that it advances; when it began as long as it has not."""
    result: Any = None
    error: BaseException | None = None
    facts: Any = None
    """What the caller wants to remember with it."""
    is_done: bool = False
    """Whether it has returned or raised, or is not going to be made."""
    is_given: bool = False
    """Whether a thread of its own was started for it."""
    asker: int = 0
    """The thread that entered it, for `PluginCalls.make`."""
    thread: int = 0
    """The thread that makes it; 0 as long as none does."""
    after: Callable[[Call], None] | None = None
    """Called when it has ended."""
    outer_heart: Callable[[], None] | None = None
    """What `reput.files.heartbeat.beat` called on its thread before it began."""

    def beat(self) -> None:
        """Take note that the call advances."""
        self.advanced = self.calls.now()

    @property
    def is_made_here(self) -> bool:
        """Whether this very thread is inside of it: a signal handler cannot wait for that."""
        return not self.is_done and self.thread == threading.get_ident()

    @property
    def idle_seconds(self) -> float:
        """For how long it has not advanced."""
        return self.calls.now() - self.advanced

    def wait(self, seconds: float | None) -> bool:
        """Return whether it is done, at the latest after ``seconds``."""
        return self.calls.wait_any((self,), seconds)

    def wait_while_advancing(self, seconds: float) -> bool:
        """Return whether it is done, at the latest when it has not advanced for ``seconds``."""
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
    """Whether it is Ctrl-C: that reaches the main thread only, and is no plugin's fault."""
    on_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and on_main


@attrs.define(eq=False)
class PluginCalls:
    """The calls of one store. Thread-safe, also where a signal comes in between."""

    root: str = ""
    """The store's directory, for error texts."""
    threads: bool = True
    """Whether `start` makes calls on threads of their own; else where they are asked for."""
    now: Callable[[], float] = time.monotonic
    """Seconds that pass."""
    # Oldest first. One that is done may be left in here, where a signal handler has raised.
    _entered: dict[Call, None] = attrs.field(factory=dict)
    # No Condition: between its Python frames a signal handler may raise, or come in and close the
    # store, and then its lock is held for good.
    _lock: threading.RLock = attrs.field(factory=new_lock)
    _bells: list[threading.Lock] = attrs.field(factory=list)
    """One for each thread that waits, locked; released when a call has ended."""
    _is_refusing: bool = False
    _after_last: Callable[[], None] | None = None

    # A signal handler may raise wherever a function begins or a call has returned (`reput.flags`).
    # So a call is made ready first, which enters nothing; a ``try`` begins; it is entered and made;
    # and ``finally`` begins with ``call.is_done = True``: an assignment, before which no handler
    # comes. What `end` does beyond that is clearing up.

    # ------------------------------------------------------------------ on this thread

    def ready(self, plugin: str, hook: str, after: Callable[[Call], None] | None = None) -> Call:
        """Make a call that may be entered; until then it is not known."""
        started = self.now()
        return Call(plugin, hook, self, started, started, after=after)

    def begin(self, call: Call) -> bool:
        """Enter a call that this thread makes from here on.

        Returns:
            False once `refuse` was called: it must not be made.
        """
        # All of it before it is entered: a handler asks by it whether it can wait for the call.
        call.outer_heart = heart_of_thread()
        call.thread = threading.get_ident()
        if not self.enter(call):
            return False
        set_heart(call.beat)
        return True

    def end(self, call: Call) -> None:
        """Clear up after a call that was begun on this thread, or perhaps was not."""
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
        # Each side writes before it looks: this one that the call is done, the others who waits.
        if self._bells or self._after_last is not None:
            self._ring()

    def _ring(self) -> None:
        """Wake those who wait for a call, and do what is to be done after the last one."""
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
        """Begin a call that may not return, and go on.

        Args:
            plugin: whose hook it is.
            hook: its name.
            function: makes the call.
            is_last: make it also after `refuse`.
            after: called when it has ended.

        Raises:
            StoreClosedError: no call is made any more.
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
        """Have a plugin close its files, unless it is still inside of another call.

        Args:
            plugin: its name.
            hook: its `reput_close`; None where it has none.
            seconds: how long to wait while the call does not advance.
            is_last: make it also after `refuse`.
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
        """Enter a call that `make` is about to make; who enters it calls `leave` in ``finally``.

        Returns:
            False once `refuse` was called: it must not be made.
        """
        with self._lock:
            if self._is_refusing and not is_last:
                return False
            self._entered[call] = None
            return True

    def leave(self, call: Call) -> None:
        """Give up a call where an exception came before it was made; else it goes on."""
        with self._lock:
            if call.is_given or call.thread:
                return
            call.is_done = True
        self._clear(call)

    def make(self, call: Call, function: Callable[[], Any]) -> None:
        """Make a call that was entered, on a thread of its own where there can be one.

        Does nothing where it was made already, or given up.
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
                # A limit on processes, or an interpreter that is ending. What hangs now holds up
                # the caller; what is not done at all would be lost.
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
                # It was given up, or a signal handler on the thread that asked for it has made it.
                if call.thread or call.is_done:
                    return
                call.outer_heart, call.thread, mine = outer, me, True
            set_heart(call.beat)
            call.result = function()
        except BaseException as error:  # the plugin's own, SystemExit and all
            call.error = error
            if is_users_interrupt(error):
                raise
        finally:
            if mine:
                call.is_done = True
                self.end(call)

    # ------------------------------------------------------------------ what is under way

    def running(self, plugin: str | None = None) -> list[Call]:
        """Calls of a plugin, or of all, that have not returned, the oldest first."""
        calls = [call for call in self._entered.copy() if not call.is_done]
        return calls if plugin is None else [call for call in calls if call.plugin == plugin]

    def wait_any(self, calls: Collection[Call], seconds: float | None) -> bool:
        """Return whether one of ``calls`` is done, at the latest after ``seconds``."""
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
            False when a call of it is still running that has not advanced for ``seconds``.
        """
        return all(call.wait_while_advancing(seconds) for call in self.running(plugin))

    # ------------------------------------------------------------------ the end

    def refuse(self) -> None:
        """Begin no call any more: plugins are about to be closed."""
        with self._lock:
            self._is_refusing = True

    def after_last(self, callback: Callable[[], None]) -> list[Call]:
        """Call ``callback`` when no call is under way any more; once, after `refuse`.

        It is called now, or by the last thread that comes back.

        Returns:
            The calls that it waits for.
        """
        with self._lock:
            self._after_last = callback  # first: a call that ends from here on sees it
            running = self.running()
        if not running:
            self._ring()
        return running


def texts_of(calls: Iterable[Call]) -> str:
    """Which calls have not returned, for people."""
    texts = (f"plugin {call.plugin!r} has not returned from {call.hook}" for call in calls)
    return ", ".join(dict.fromkeys(texts))

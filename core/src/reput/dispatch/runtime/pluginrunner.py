"""`PluginRunner`: place, phase and calls of one plugin of an open store.

Only the runner changes these: the modules that dispatch, flush, work by the clock and trim the log
ask it whether the plugin may run, make calls through it, and report the results to it.
`RunnerContext` is what the plugins of one store share.

The new phase of a plugin, by event and old phase (``-``: unchanged, even if `last_error` changes):

=============== ========= ========= ========= ========= ========= =========
event           running   retrying  stalled   suspended halted    broken
=============== ========= ========= ========= ========= ========= =========
passed          running   running   running   -         -         -
batch_failed    retrying  retrying  retrying  -         -         -
stop, suspend   suspended suspended suspended -         -         -
stop, halt      halted    halted    halted    -         -         -
flush_failed    suspended suspended suspended -         -         -
flush_waits     retrying  -         -         -         -         -
mark_if_stalled stalled   stalled   -         -         -         -
ended           -         -         running   -         -         -
suspend         suspended suspended suspended suspended suspended -
not_opened      broken    broken    broken    broken    broken    broken
resume          running   running   running   running   running   running
=============== ========= ========= ========= ========= ========= =========

`flushed` undoes `flush_waits`. A plugin stays ``retrying`` until both have succeeded: its batch,
and its flush.

So only `resume` starts a plugin again that its user or a failure has stopped, however late an
earlier call ends. A stalled plugin goes on when the call that it hangs in returns, or passes its
batch.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from reput.dispatch.config import HALT, SKIP, Retries
from reput.dispatch.runtime.hookcalls import Call
from reput.dispatch.runtime.pluginstate import (
    Flushes,
    LiveFigures,
    Phase,
    PluginPosition,
    SharedContext,
    Stopped,
)
from reput.errors import StoreClosedError
from reput.files.system.flushing import is_disk_full

if TYPE_CHECKING:
    from reput.plugin.hooktable import PluginHooks
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

ENRICH: Final = "reput_enrich"
_ACTIVE: Final = (Phase.RUNNING, Phase.RETRYING)
_STOPPED: Final = (Phase.SUSPENDED, Phase.HALTED, Phase.BROKEN)


class PluginRunner:
    """One plugin of an open store. Other objects only read its attributes."""

    def __init__(
        self,
        board: RunnerContext,
        name: str,
        hooks: PluginHooks,
        position: int,
        requires: frozenset[str] = frozenset(),
        skipped_count: int = 0,
    ) -> None:
        """Make the runner of a plugin that runs."""
        self._board = board
        self.name = name
        self.hooks = hooks
        self.requires = requires
        self.place = PluginPosition(position)
        """Replaced as a whole."""
        self.phase = Phase.RUNNING
        self.stopped: Stopped | None = None
        """Why the plugin is stopped; None unless its phase is a stopped one."""
        self.last_error: str | None = None
        self.cut_to: int | None = None
        """After a failed flush: progress up to which its files are valid; else None."""
        self.retries = Retries(board.config)
        """Of batches; in seconds of the board's clock."""
        self.group: Any = None
        """The `ReadGroup` that dispatches to it; set by the loop, under the board's lock."""
        self.flushes = Flushes()
        """Kept, and replaced when the plugin is opened again, by the plugin flusher."""
        self.figures = LiveFigures(skipped_count)
        self._skipped_in_a_row = 0
        self._stalled_in: Call | None = None
        self.is_flush_waiting = False
        """Whether the last flush found the disk full."""
        self.is_opened_again = False
        """Whether it is broken because its opening found the disk full."""
        self.is_reopening = False
        """Whether it is closed, and opened in the same call of `PluginLifecycle.resume`."""
        self._fails_to_enrich = False

    # ------------------------------------------------------------------ asking

    @property
    def position(self) -> int:
        """Physical offset of the next message that it needs."""
        return self.place.position

    @property
    def is_active(self) -> bool:
        """Whether the plugin itself could be given messages, now or after a pause."""
        return self.phase in _ACTIVE

    @property
    def is_broken(self) -> bool:
        """Whether the plugin could not be opened: none of its hooks may be called."""
        return self.phase is Phase.BROKEN

    @property
    def is_usable(self) -> bool:
        """Whether hooks may be called: the plugin is active, and dispatching is not halted."""
        return self.phase in _ACTIVE and self._board.halted is None

    @property
    def is_waiting(self) -> bool:
        """Whether a plugin that it requires does not run."""
        others = [self._board.runners.get(name) for name in self.requires]
        return any(other is not None and not other.is_usable for other in others)

    @property
    def may_run(self) -> bool:
        """Whether the plugin and all that it requires are usable."""
        is_usable = self.phase in _ACTIVE and self._board.halted is None
        return is_usable and (not self.requires or not self.is_waiting)

    @property
    def may_dispatch(self) -> bool:
        """Whether the plugin may be given messages now, and is not in a pause."""
        board = self._board
        is_due = self.phase is Phase.RUNNING or self.retries.at <= board.now() or board.is_finishing
        return is_due and self.hooks.dispatch is not None and self.may_run

    @property
    def may_skip(self) -> bool:
        """Whether one more message may be skipped."""
        return self._skipped_in_a_row < self._board.config.skip_limit

    # ------------------------------------------------------------------ calling

    def may_make(self, hook: str) -> bool:
        """Whether a hook that gets no messages may be called, now or after a wait.

        `reput_enrich` is also called while the plugin is stopped: its columns are a function of the
        batch, and what others derive must not depend on when the plugin ran.
        """
        if hook != ENRICH or self._board.halted is not None:
            return self.is_usable
        stalled_in = self._stalled_in
        hangs_here = stalled_in is not None and stalled_in.hook == ENRICH and not stalled_in.is_done
        return not (self.is_broken or self._fails_to_enrich or hangs_here) or self.is_reopening

    def make(
        self,
        hook: str,
        function: Callable[[], Any],
        *,
        at: int | None = None,
        by: object = None,
        then: Callable[[Call], None] | None = None,
    ) -> Call | None:
        """Call a hook on this thread, which is one of the store's own.

        Args:
            hook: the hook's name.
            function: calls it.
            at: for a call that gives messages, the position at which the plugin must be.
            by: for such a call, the group that dispatches to the plugin.
            then: see `Call`.

        Returns:
            The call, with its result or error. None if it must not be made: the plugin does not
            run, is at another position, or is inside of the same hook; or the store is closed.
        """

        def may() -> bool:
            if at is None:
                return self.may_make(hook) and not self.is_reopening
            return self.place.position == at and self.group is by and self.may_dispatch

        calls = self._board.calls
        call = Call(calls, self.name, hook, function, then)
        return call if calls.make(call, may, ends_child=True) else None

    def request(
        self, hook: str, function: Callable[[], Any], then: Callable[[Call], None] | None = None
    ) -> Call:
        """Have the plugin's thread make a call that may not return; return the call.

        Without ``then``, an exception, however late, is a failure of the plugin, without retry: its
        files may be half written, and are checked when it is opened again. A full disk is none: the
        store calls the hook again.

        Raises:
            StoreClosedError: no more calls are made.
        """
        then = then or self._stop_if_it_failed
        return self._board.calls.request(self.name, hook, function, then)

    def inside(self, hook: str) -> Call | None:
        """Return the call of ``hook``, made by `make`, that is under way; None without one."""
        return next((call for call in self.calls if call.hook == hook), None)

    @property
    def calls(self) -> list[Call]:
        """All calls of the plugin that are requested or under way, oldest first."""
        return self._board.calls.running(self.name)

    def wait_outside(self) -> bool:
        """Wait until no call of the plugin is requested or under way.

        Returns:
            False if one is that has not advanced for `RunnerContext.stall_seconds`.
        """
        return all(call.wait(idle=self._board.stall_seconds) for call in self.calls)

    def mark_if_stalled(self, call: Call) -> bool:
        """Mark the plugin as stalled if ``call``, or the one before it, has not advanced lately.

        Returns:
            Whether the call has not.
        """
        with self._board.lock:  # so that a call that ends later finds the plugin stalled in it
            call = call.under_way
            call.after = self.ended  # before it is asked whether it is done
            if call.is_done or not call.thread or call.idle_seconds < self._board.stall_seconds:
                return False
            if self.phase not in _ACTIVE:
                return True
            self.phase, self._stalled_in = Phase.STALLED, call
            seconds = self._board.stall_seconds
            self.last_error = f"{call.hook} has not returned after {seconds:g} s"
        logger.error("plugin stalled plugin=%s hook=%s", self.name, call.hook)
        self._board.notify_changed()
        return True

    @property
    def stalled_text(self) -> str:
        """Says in which call the plugin hangs, and for how long."""
        call = self._stalled_in
        if call is None or call.is_done:
            return self.last_error or "it hangs"
        seconds = f"{call.idle_seconds:.1f} s"
        return f"{call.hook} has not returned, and has brought no file to disk for {seconds}"

    def ended(self, call: Call) -> None:
        """Note that a call is done, perhaps after the plugin was marked as stalled in it.

        A call that raised does not let the plugin go on: the caller reports the failure, and until
        then a plugin whose flush failed must not continue.
        """
        with self._board.lock:
            is_stalled = self.phase is Phase.STALLED and self._stalled_in is call
            if call.error is not None or not is_stalled:
                return
            self.phase, self._stalled_in, self.last_error = Phase.RUNNING, None, None
        logger.warning("plugin came back plugin=%s", self.name)
        self._board.notify_changed()

    def _stop_if_it_failed(self, call: Call) -> None:
        if call.error is not None and is_disk_full(call.error):
            text = "plugin found the disk full, it is called again later plugin=%s hook=%s error=%s"
            logger.warning(text, self.name, call.hook, text_of(call.error))
        elif call.error is not None:
            self.stop(call.error)

    # ------------------------------------------------------------------ moving

    def advance(self, start: int, end: int) -> bool:
        """Move the plugin from ``start`` to ``end`` of the log, where there are no records.

        Returns:
            False if it is at another position by now; it is not moved then.
        """
        with self._board.lock:
            if self.position != start:
                return False
            self.place = attrs.evolve(self.place, position=end)
            return True

    def passed(self, batch: DispatchBatch, seconds: float, processor_seconds: float) -> None:
        """Note a batch, of one message or more, that the plugin has dispatched, and move it."""
        with self._board.lock:
            self.figures.count(len(batch), seconds, processor_seconds)
            self._skipped_in_a_row = 0
            if self.retries.count:
                self.retries.succeeded()
            last_offset = batch.base_offset + int(batch.start[-1])
            place = PluginPosition(batch.end_offset, last_offset, int(batch.store_timestamp[-1]))
            # Set last: a thread that sees the new place may rely on the rest.
            self.place = place
            stalled_in = self._stalled_in
            if (self.phase is Phase.RETRYING and not self.is_flush_waiting) or (
                self.phase is Phase.STALLED
                and stalled_in is not None
                and stalled_in.hook == "reput_dispatch"
            ):
                self.phase, self._stalled_in = Phase.RUNNING, None
                self._board.changed.set()

    def skipped(self, batch: DispatchBatch) -> None:
        """Note that the one message of a batch was skipped and is in the dead-letter file."""
        with self._board.lock:
            in_a_row = self._skipped_in_a_row + 1
            self.passed(batch, 0.0, 0.0)
            self._skipped_in_a_row = in_a_row
            self.figures.skipped_count += 1
        self._board.changed.set()

    def drop(self, min_physical_offset: int) -> None:
        """Move the plugin past messages that are about to be removed from the log."""
        with self._board.lock:
            if self.hooks.dispatch is None or self.position >= min_physical_offset:
                return
            logger.warning(
                "messages dropped that a plugin has not seen plugin=%s from=%d to=%d",
                self.name,
                self.position,
                min_physical_offset,
            )
            self.place = attrs.evolve(self.place, position=min_physical_offset)

    # ------------------------------------------------------------------ failing

    def enrich_failed(self, error: BaseException) -> None:
        """Note that the plugin failed to add its columns; it is asked again when it is resumed."""
        self._fails_to_enrich = True
        self.stop(error)

    def batch_failed(self, error: BaseException) -> bool:
        """Note that the plugin failed on a batch, which is tried again or in parts, or stops it.

        Returns:
            Whether the message that it fails on must be found.
        """
        with self._board.lock:
            self.last_error = text_of(error)
            if self.phase in _STOPPED:
                # While the call was under way, the user stopped the plugin, or a flush of its files
                # failed. A retry would let it go on regardless.
                return False
            pause = self.retries.failed(error, self._board.now())
            if not self.retries.are_over and not self._board.is_finishing:
                self.figures.failure_count += 1
                self.phase = Phase.RETRYING
                logger.warning(
                    "plugin failed, tried again plugin=%s attempt=%d pause_s=%g error=%s",
                    self.name,
                    self.retries.count,
                    pause,
                    self.last_error,
                )
                self._board.changed.set()
                return False
        if not is_disk_full(error):
            self.figures.failure_count += 1
            return True
        self.stop(error)
        return False

    @property
    def skips(self) -> bool:
        """Whether a message that the plugin fails on becomes a dead letter."""
        return self._board.config.policy_of(self.name) == SKIP

    def stop(self, error: BaseException, message: DispatchBatch | None = None) -> None:
        """Suspend the plugin, or halt all dispatching, after a failure that is not retried.

        Args:
            error: the failure.
            message: the one that the plugin failed on, if it is known.
        """
        if isinstance(error, StoreClosedError) and self._board.is_stopping:
            return  # the store is closing
        is_halting = self._board.config.policy_of(self.name) == HALT
        with self._board.lock:
            self.figures.failure_count += message is None  # else the batch was counted
            self.last_error = text_of(error)
            if message is not None:
                self.last_error = f"message {_name_of(message)}: {self.last_error}"
            if self.phase in _STOPPED:  # stays stopped as it was, by its user or an earlier failure
                return
            self.stopped = Stopped.BY_FAILURE
            self.phase = Phase.HALTED if is_halting else Phase.SUSPENDED
            if is_halting:
                self._board.halt(self.name)
        happened = "dispatching halted" if is_halting else "plugin suspended"
        if message is not None:
            happened = f"{happened} message={_name_of(message)}"
        logger.error("%s plugin=%s", happened, self.name, exc_info=error)
        self._board.notify_changed()

    def flush_failed(self, error: BaseException, cut_to: int | None) -> None:
        """Note that a flush failed.

        Args:
            error: the flush's exception.
            cut_to: progress up to which the plugin's files are known to be on disk; None for a
                plugin that dispatches nothing.
        """
        with self._board.lock:
            if cut_to is not None:
                self.cut_to = cut_to
            self.stop(error)

    def flush_waits(self, error: BaseException) -> None:
        """Note that a flush found the disk full; the next round of flushes tries it again."""
        with self._board.lock:
            self.last_error = text_of(error)
            is_news, self.is_flush_waiting = not self.is_flush_waiting, True
            if self.phase is Phase.RUNNING:
                self.phase = Phase.RETRYING
            if is_news:
                self.figures.failure_count += 1
        if is_news:
            text = "plugin not flushed, tried until the disk has space plugin=%s error=%s"
            logger.warning(text, self.name, self.last_error)
            self._board.changed.set()

    def flushed(self) -> None:
        """Note that a flush succeeded, after one that found the disk full."""
        with self._board.lock:
            self.is_flush_waiting = False
            if self.phase is Phase.RETRYING and not self.retries.count:
                self.phase = Phase.RUNNING
        logger.info("plugin flushed, the disk has space again plugin=%s", self.name)
        self._board.changed.set()

    def not_opened(self, why: BaseException | str, cut_to: int | None) -> None:
        """Note that the plugin could not be opened.

        Args:
            why: the exception, or what is wrong.
            cut_to: the attribute `cut_to`, which holds for the next opening of the plugin, too.
        """
        text = f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else why
        self.is_opened_again = isinstance(why, BaseException) and is_disk_full(why)
        with self._board.lock:
            self.phase, self.stopped = Phase.BROKEN, Stopped.BY_FAILURE
            self.last_error, self.cut_to = text, cut_to
        logger.error("plugin not usable plugin=%s error=%s", self.name, text)
        self._board.notify_changed()

    # ------------------------------------------------------------------ suspending and resuming

    def suspend(self, by: Stopped) -> None:
        """Give the plugin no more messages; its place and its files stay."""
        with self._board.lock:
            self.stopped, self.is_opened_again = by, False
            if by is Stopped.FOR_REMOVAL:
                self.last_error = None
            if self.phase is not Phase.BROKEN:
                self.phase = Phase.SUSPENDED
        logger.info("plugin suspended plugin=%s reason=asked for", self.name)
        self._board.notify_changed()

    def reopen(self, *, is_begun: bool) -> None:
        """Note that closing the plugin, to open it again, begins or is over."""
        self.is_reopening = is_begun
        self._board.notify_moved()

    def resume(self, position: int) -> None:
        """Give the plugin, which was opened just now, messages from ``position`` on."""
        with self._board.lock:
            self.place = PluginPosition(position)
            self.retries.succeeded()
            self._skipped_in_a_row, self.is_flush_waiting, self.is_opened_again = 0, False, False
            self._fails_to_enrich = False
            self.last_error = self.cut_to = self._stalled_in = self.stopped = None
            self.figures.forget_times()
            if self.phase is Phase.RUNNING:
                return
            self._board.go_on(self.name)
            self.phase = Phase.RUNNING
        self._board.notify_changed()


RunnerContext: TypeAlias = SharedContext[PluginRunner]
"""What the plugins of one store share."""


def _name_of(batch: DispatchBatch) -> str:
    """Return which message the one of ``batch`` is: ``orders/0@12``."""
    topic = batch.topics[int(batch.topic_code[0])]
    return f"{topic}/{int(batch.queue_id[0])}@{int(batch.queue_offset[0])}"


def text_of(error: BaseException) -> str:
    """Return type and text of an error."""
    return "".join(traceback.format_exception_only(error)).strip()

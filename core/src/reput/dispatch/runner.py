"""`PluginRunner`: one plugin of an open store: its place in the log, its phase, its calls.

It is the one owner of these: the modules that dispatch, flush, work by the clock and expire the log
ask it whether the plugin may run, enter calls by way of it, and tell it what came of them. Nothing
else sets an attribute of it. `Board` is what the plugins of one store have in common.

What a plugin's phase becomes, by what is told and what the phase was (``-``: stays as it was, also
where `last_error` changes):

=============== ========= ========= ========= ========= ========= =========
told            running   retrying  stalled   suspended halted    broken
=============== ========= ========= ========= ========= ========= =========
passed          running   running   running   -         -         -
failed          retrying  retrying  retrying  -         -         -
fail, suspend   suspended suspended suspended -         -         -
fail, halt      halted    halted    halted    -         -         -
flush_failed    suspended suspended suspended -         -         -
is_stuck        stalled   stalled   -         -         -         -
came_back       -         -         running   -         -         -
suspend         suspended suspended suspended suspended suspended -
not_opened      broken    broken    broken    broken    broken    broken
resume          running   running   running   running   running   running
=============== ========= ========= ========= ========= ========= =========

So what its user or a failure has stopped only `resume` sets going, however late a call ends that
began before; and what is stalled goes on when that same call comes back, or passes its batch.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.dispatch.config import HALT, SKIP, DispatchConfig
from reput.dispatch.phase import Figures, Phase, Place, Stopped
from reput.errors import StoreClosedError
from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.dispatch.calls import Call, PluginCalls
    from reput.plugin.host.hooktable import PluginHooks
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

__all__ = ["Board", "PluginRunner", "text_of"]

_ACTIVE: Final = (Phase.RUNNING, Phase.RETRYING)
_STOPPED: Final = (Phase.SUSPENDED, Phase.HALTED, Phase.BROKEN)
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


@attrs.define(eq=False)
class Board:
    """What the plugins of one store have in common."""

    config: DispatchConfig
    calls: PluginCalls
    """All calls of plugins that are under way."""
    now: Callable[[], float] = time.monotonic
    """Seconds that pass, for pauses between retries."""
    lock: threading.RLock = attrs.field(factory=new_lock)
    """Guards the plugins' states, and in which read group each is."""
    runners: dict[str, PluginRunner] = attrs.field(factory=dict, init=False)
    """The active plugins by name, in dispatch order; replaced whole."""
    halted: str | None = attrs.field(default=None, init=False)
    """The plugin that stopped all dispatching."""
    is_stopping: bool = attrs.field(default=False, init=False)
    """Whether the store closes, so that what is refused to a plugin is not its fault."""
    is_finishing: bool = attrs.field(default=False, init=False)
    """Whether nothing is tried again any more."""
    changed: Flag = attrs.field(factory=Flag, init=False)
    """Set when the state of a plugin has changed; cleared when the notes of it are written."""
    _moved: Flag = attrs.field(factory=Flag, init=False)
    _listeners: list[Callable[[], None]] = attrs.field(factory=list, init=False)

    # ------------------------------------------------------------------ members

    def add(self, runner: PluginRunner) -> None:
        """Have one plugin more; call `sort` when the order is known."""
        with self.lock:
            self.runners = {**self.runners, runner.name: runner}

    def remove(self, name: str) -> PluginRunner:
        """Have one plugin less."""
        with self.lock:
            runners = dict(self.runners)
            runner = runners.pop(name)
            self.runners = runners
            return runner

    def sort(self, names: Iterable[str]) -> None:
        """Keep the plugins in this order."""
        with self.lock:
            self.runners = {name: self.runners[name] for name in names if name in self.runners}

    # ------------------------------------------------------------------ what happens to all

    @property
    def stall_seconds(self) -> float:
        """How long a call may go without advancing."""
        return self.config.stall_ms / 1_000

    def halt(self, name: str) -> None:
        """Stop all dispatching, because of a plugin that the others must not overtake."""
        with self.lock:
            self.halted = name

    def go_on(self, name: str) -> None:
        """Take back what `halt` did for a plugin."""
        with self.lock:
            if self.halted == name:
                self.halted = None

    def finish(self) -> None:
        """Try everything once more at once, and nothing after that: the store closes."""
        with self.lock:
            self.is_finishing = True
            for runner in self.runners.values():
                runner.retry_now()

    def stop(self) -> None:
        """Take note that the store closes under its plugins."""
        self.is_stopping = True

    def look_for_stalls(self) -> None:
        """Take note of every plugin that does not return from a call."""
        for call in self.calls.running():
            runner = self.runners.get(call.plugin)
            if runner is not None:
                runner.is_stuck(call)

    # ------------------------------------------------------------------ telling

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the state of a plugin has changed."""
        self._listeners.append(listener)

    def tell(self) -> None:
        """The state of a plugin has changed."""
        self.changed.set()
        self.notify_moved()
        for listener in self._listeners:
            listener()

    @property
    def moved(self) -> Flag:
        """Set when the place or the state of a plugin changes from now on."""
        return self._moved

    def notify_moved(self) -> None:
        """The place or the state of a plugin has changed."""
        moved, self._moved = self._moved, Flag()
        moved.set()


class PluginRunner:
    """One plugin of an open store. Its attributes are for others to read; it alone sets them."""

    def __init__(
        self,
        board: Board,
        name: str,
        hooks: PluginHooks,
        position: int,
        requires: frozenset[str] = frozenset(),
        skipped_count: int = 0,
    ) -> None:
        """Make the runner of a plugin that runs.

        Args:
            board: what it has in common with the others; `Board.add` makes it one of them.
            name: the plugin's.
            hooks: what it implements.
            position: physical offset from which on it needs messages.
            requires: plugins without which it does not run.
            skipped_count: messages in its dead-letter file.
        """
        self._board = board
        self.name = name
        self.hooks = hooks
        self.requires = requires
        self.place = Place(position)
        """Replaced whole."""
        self.phase = Phase.RUNNING
        self.stopped: Stopped | None = None
        """Who stopped it; None where its phase does not say that it is stopped."""
        self.last_error: str | None = None
        self.cut_to: int | None = None
        """After a failed flush: its files are what was written only up to this progress."""
        self.retry_at = 0.0
        """When to try again, in seconds of the board's clock."""
        self.figures = Figures(skipped_count)
        self._attempts = 0
        """Failures since the last batch that went well."""
        self._skipped_in_a_row = 0
        self._stalled_in: Call | None = None
        self._last_calls: dict[str, Call] = {}
        """By hook, the last call that `begin` has entered."""

    # ------------------------------------------------------------------ asking

    @property
    def position(self) -> int:
        """Physical offset of the next message that it needs."""
        return self.place.position

    @property
    def is_active(self) -> bool:
        """Whether it is given messages, now or after a pause, as far as it is up to itself."""
        return self.phase in _ACTIVE

    @property
    def failure(self) -> str | None:
        """Why it does not run; None while it does."""
        return None if self.is_active else self.last_error or self.phase.shown

    @property
    def is_broken(self) -> bool:
        """Whether it could not be opened, so that no hook of it may be called."""
        return self.phase is Phase.BROKEN

    @property
    def is_usable(self) -> bool:
        """Whether hooks of it may be called: it is active, and no other has halted everything."""
        return self.phase in _ACTIVE and self._board.halted is None

    @property
    def is_waiting(self) -> bool:
        """Whether a plugin that it requires does not run."""
        if not self.requires:
            return False
        others = [self._board.runners.get(name) for name in self.requires]
        return any(other is not None and not other.is_usable for other in others)

    @property
    def may_run(self) -> bool:
        """Whether it runs: it is usable, and so are those that it requires."""
        return self.is_usable and not self.is_waiting

    @property
    def wants_messages(self) -> bool:
        """Whether it makes sense to wait until it has seen messages."""
        return self.hooks.dispatch is not None and self.may_run

    @property
    def may_dispatch(self) -> bool:
        """Whether it may be given messages now."""
        is_due = self.phase is Phase.RUNNING or self.retry_at <= self._board.now()
        return is_due and self.wants_messages

    @property
    def may_skip(self) -> bool:
        """Whether another message may be passed over."""
        return self._skipped_in_a_row < self._board.config.skip_limit

    # ------------------------------------------------------------------ calling

    # A signal handler may raise wherever a call has returned (`reput.dispatch.calls`), so that
    # beginning a call takes two steps: `ready` makes it and enters nothing; then a ``try`` begins,
    # whose ``finally`` says that it is done; `begin` enters it.

    def ready(self, hook: str) -> Call:
        """Make a call that `begin` may enter; until then it is not known."""
        return self._board.calls.ready(self.name, hook, self._ended)

    def begin(self, call: Call, *, at: int | None = None) -> bool:
        """Enter a call that this thread makes from here on; `PluginCalls.end` ends it.

        Args:
            call: a ready one.
            at: where the plugin must stand, for a call that gives it messages.

        Returns:
            False where it must not be made: the plugin does not run, stands elsewhere, or is inside
            of the same hook; or the store is closed.
        """
        with self._board.lock:
            may = self.is_usable if at is None else self.position == at and self.may_dispatch
            if not may or self.inside(call.hook) or not self._board.calls.begin(call):
                return False
            self._last_calls[call.hook] = call
            return True

    def start(self, hook: str, function: Callable[[], Any]) -> Call:
        """Begin a call that may not return, on a thread that can be left behind, and go on.

        What it raises, however late, is a failure of the plugin, and nothing is tried again: its
        files may be half of what they were, and are looked at when it is opened again.

        Raises:
            StoreClosedError: no call is made any more.
        """
        return self._board.calls.start(self.name, hook, function, after=self._ended_alone)

    def inside(self, hook: str) -> Call | None:
        """The call of a hook, entered by `begin`, that is under way; None without."""
        call = self._last_calls.get(hook)
        return None if call is None or call.is_done else call

    @property
    def calls(self) -> list[Call]:
        """All calls that are under way, the oldest first."""
        return self._board.calls.running(self.name)

    def wait_outside(self) -> bool:
        """Wait until no call of it is under way.

        Returns:
            False when one is that has not advanced for as long as a call may take.
        """
        return self._board.calls.wait_outside(self.name, self._board.stall_seconds)

    def is_stuck(self, call: Call) -> bool:
        """Whether a call of it has not advanced for too long; then it is stalled in it."""
        with self._board.lock:  # in here: a call that is done later finds the plugin stalled in it
            if call.is_done or call.idle_seconds < self._board.stall_seconds:
                return False
            if self.phase not in _ACTIVE:
                return True
            self.phase, self._stalled_in = Phase.STALLED, call
            seconds = self._board.stall_seconds
            self.last_error = f"{call.hook} has not returned after {seconds:g} s"
        logger.error("plugin stalled plugin=%s hook=%s", self.name, call.hook)
        self._board.tell()
        return True

    def came_back(self, call: Call) -> None:
        """Take note that a call has returned, perhaps after it was given up."""
        with self._board.lock:
            if self.phase is not Phase.STALLED or self._stalled_in is not call:
                return
            self.phase, self._stalled_in, self.last_error = Phase.RUNNING, None, None
        logger.warning("plugin came back plugin=%s", self.name)
        self._board.tell()

    def _ended(self, call: Call) -> None:
        # What raised is told by its caller, as a failure: until then a plugin whose flush failed
        # must not go on.
        if call.error is None:
            self.came_back(call)

    def _ended_alone(self, call: Call) -> None:
        if call.error is not None:
            self.fail(call.error)
        self._ended(call)

    # ------------------------------------------------------------------ moving

    def advance(self, start: int, end: int) -> bool:
        """Pass over the log from ``start`` to ``end``, where no record is.

        Returns:
            False where it stands elsewhere by now; it stays there.
        """
        with self._board.lock:
            if self.position != start:
                return False
            self.place = attrs.evolve(self.place, position=end)
            return True

    def passed(self, batch: DispatchBatch, seconds: float, processor_seconds: float) -> None:
        """Take note of a batch that it has dispatched."""
        with self._board.lock:
            self.figures.count(batch, seconds, processor_seconds)
            self._attempts = self._skipped_in_a_row = 0
            place = Place(batch.end_offset, self.place.record_offset, self.place.store_timestamp)
            if len(batch):
                last_offset = batch.base_offset + int(batch.start[-1])
                place = Place(batch.end_offset, last_offset, int(batch.store_timestamp[-1]))
            # After everything else: a thread that sees the new place may take the rest for granted.
            self.place = place
            stalled_in = self._stalled_in
            if self.phase is Phase.RETRYING or (
                self.phase is Phase.STALLED
                and stalled_in is not None
                and stalled_in.hook == "reput_dispatch"
            ):
                self.phase, self._stalled_in = Phase.RUNNING, None
                self._board.changed.set()

    def skipped(self, batch: DispatchBatch) -> None:
        """Take note of the one message of a batch that was passed over, and noted down."""
        with self._board.lock:
            in_a_row = self._skipped_in_a_row + 1
            self.passed(batch, 0.0, 0.0)
            self._skipped_in_a_row = in_a_row
            self.figures.skipped_count += 1
        self._board.changed.set()

    def drop(self, min_physical_offset: int) -> None:
        """Pass over what the log is going to lose."""
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

    def failed(self, error: BaseException) -> bool:
        """Take note that the plugin failed on a batch.

        Returns:
            Whether the batch is to be skipped.
        """
        config, no_space = self._board.config, _is_no_space(error)
        with self._board.lock:
            self.last_error = text_of(error)
            if self.phase in _STOPPED:
                # Its user stopped it, or a flush of its files failed, while the call was under way.
                # Tried again it would go on as if nothing had been.
                return False
            self._attempts += 1
            again = no_space or self._attempts <= config.retry_count
            if again and not self._board.is_finishing:
                pause = config.pause_seconds(self._attempts)
                if no_space:
                    pause = config.retry_max_pause_ms / 1_000
                self.phase, self.retry_at = Phase.RETRYING, self._board.now() + pause
                logger.warning(
                    "plugin failed, tried again plugin=%s attempt=%d pause_s=%g error=%s",
                    self.name,
                    self._attempts,
                    pause,
                    self.last_error,
                )
                self._board.changed.set()
                return False
        if config.policy_of(self.name) == SKIP and not no_space:
            return True
        self.fail(error)
        return False

    def fail(self, error: BaseException) -> None:
        """Take note that the plugin failed where nothing can be tried again."""
        if isinstance(error, StoreClosedError) and self._board.is_stopping:
            return  # the store closes under it
        is_halting = self._board.config.policy_of(self.name) == HALT
        with self._board.lock:
            self.last_error = text_of(error)
            if self.phase in _STOPPED:  # by its user, or by what failed first: that stays as it is
                return
            self.stopped = Stopped.BY_FAILURE
            self.phase = Phase.HALTED if is_halting else Phase.SUSPENDED
            if is_halting:
                self._board.halt(self.name)
        happened = "dispatching halted" if is_halting else "plugin suspended"
        logger.error("%s plugin=%s", happened, self.name, exc_info=error)
        self._board.tell()

    def flush_failed(self, error: BaseException, cut_to: int | None) -> None:
        """Take note that a flush failed.

        Args:
            error: what it raised.
            cut_to: progress up to which its files are known to be on disk; None for a plugin that
                derives nothing.
        """
        with self._board.lock:
            if cut_to is not None:
                self.cut_to = cut_to
            self.fail(error)

    def not_opened(self, why: BaseException | str, cut_to: int | None) -> None:
        """Take note that it could not be opened.

        Args:
            why: what it raised, or what is wrong.
            cut_to: see `cut_to`; it still holds when the plugin is opened the next time.
        """
        text = f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else why
        with self._board.lock:
            self.phase, self.stopped = Phase.BROKEN, Stopped.BY_FAILURE
            self.last_error, self.cut_to = text, cut_to
        logger.error("plugin not usable plugin=%s error=%s", self.name, text)
        self._board.tell()

    # ------------------------------------------------------------------ stopping and going on

    def suspend(self, by: Stopped) -> None:
        """Give it no messages any more; its place and its files stay as they are."""
        with self._board.lock:
            self.stopped = by
            if by is Stopped.FOR_REMOVAL:
                self.last_error = None
            if self.phase is not Phase.BROKEN:
                self.phase = Phase.SUSPENDED
        logger.info("plugin suspended plugin=%s reason=asked for", self.name)
        self._board.tell()

    def resume(self, position: int) -> None:
        """Give it messages again, from ``position`` on; it was opened once more."""
        with self._board.lock:
            self.place = Place(position)
            self._attempts = self._skipped_in_a_row = 0
            self.last_error = self.cut_to = self._stalled_in = self.stopped = None
            self.figures.forget_times()
            self._board.go_on(self.name)
            self.phase = Phase.RUNNING
        self._board.tell()

    def retry_now(self) -> None:
        """Make no pause before the next retry."""
        self.retry_at = 0.0


def text_of(error: BaseException) -> str:
    """An error in one line, or some."""
    return "".join(traceback.format_exception_only(error)).strip()


def _is_no_space(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_SPACE

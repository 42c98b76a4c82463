"""The reput loop: reads the log again and hands it, in batches, to the plugins.

Every plugin has a place of its own in the log. What a plugin does wrong stops only itself: one that
fails is tried again and then suspended (or its message skipped, or everything halted, as its policy
says), and one that does not return is left to itself. How batches are cut and handed out is the
work of `reput.dispatch.lane`; here is who runs, who does not, and why.

Source: RocketMQ ``ReputMessageService``, which has one place for all dispatchers, and tries a
message on which one fails again for ever.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reput.dispatch.calls import PluginCalls
from reput.dispatch.config import HALT, SKIP, DispatchConfig
from reput.dispatch.lanes import Lanes
from reput.dispatch.runner import HALTED, RETRYING, RUNNING, STALLED, SUSPENDED, PluginRunner
from reput.errors import ReputError, StoreClosedError
from reput.flags import Flag

if TYPE_CHECKING:
    from reput.dispatch.calls import Call
    from reput.dispatch.lane import Lane
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.host.pluginset import PluginSet
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

__all__ = ["ReputLoop"]

_BUSY_SECONDS = 10.0  # how long after the last new message the next one is expected
_LONGEST_WAIT = 1.0  # seconds; then who waits looks for itself
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class ReputLoop:
    """Drives the plugins of one store, on threads of its own or step by step."""

    def __init__(
        self,
        log: CommitLog,
        dispatchers: dict[str, PluginRunner],
        limit: Callable[[], int],
        config: DispatchConfig,
        write_dead_letter: Callable[[str, DispatchBatch, BaseException], None],
        *,
        threads: bool = True,
        now: Callable[[], float] = time.monotonic,
        calls: PluginCalls | None = None,
    ) -> None:
        """Make the loop; nothing runs yet.

        Args:
            log: the log to read.
            dispatchers: every active plugin by name, in dispatch order.
            limit: end of what may be dispatched now.
            config: what happens when a plugin fails.
            write_dead_letter: keeps a note of the first message of a batch, durably.
            threads: whether `start` starts any.
            now: seconds that pass, for pauses between retries.
            calls: where calls of hooks are entered.
        """
        self.log = log
        self.config = config
        self.calls = PluginCalls() if calls is None else calls
        self.process = os.getpid()
        self.lock = threading.RLock()
        """Guards states, places that are set from outside, and who is in which lane."""
        self.hurry = Flag()
        """Set while somebody waits for the loop, which then makes no pauses."""
        self.halted: str | None = None
        """The plugin that stopped all dispatching."""
        self.stopping = False
        self.changed = Flag()
        """Set when the state of a plugin has changed."""
        self.after_tell: Callable[[], None] = lambda: None
        """Called when the state of a plugin has changed."""
        self.enrichers: list[tuple[PluginRunner, Callable[..., Any]]] = []
        self.arrivers: list[tuple[PluginRunner, Callable[..., Any]]] = []
        self._limit = limit
        self._now = now
        self._threads = threads
        self._write_dead_letter = write_dead_letter
        self._by_name = dispatchers
        self._moved = Flag()
        self._awaited: list[set[str] | None] = []
        """Whom those who wait are waiting for; None: for everybody."""
        self._is_closing = False
        self._unread: dict[Lane, Exception] = {}
        """Lanes for which the log could not be read, and why."""
        self._seen_limit = -1
        self._grew_at = -_BUSY_SECONDS
        self.lanes = Lanes(self, list(dispatchers.values()))

    def use(self, plugins: PluginSet) -> None:
        """Call the hooks of these plugins from the next batch on."""
        with self.lock:
            self.enrichers = [
                (self._by_name[name], hooks.enrich)
                for name, hooks in plugins.hooks.items()
                if hooks.enrich is not None
            ]
            self.arrivers = [
                (self._by_name[name], hooks.arrive)
                for name, hooks in plugins.hooks.items()
                if hooks.arrive is not None
            ]
            order = {name: place for place, name in enumerate(plugins.plugins)}
            self._by_name = {
                name: self._by_name[name] for name in sorted(self._by_name, key=order.__getitem__)
            }
            self.lanes.main.sort(order)
        self.wake()

    # ------------------------------------------------------------------ where everybody stands

    @property
    def dispatchers(self) -> list[PluginRunner]:
        """Every plugin, in dispatch order."""
        return list(self._by_name.values())

    def known(self, name: str) -> PluginRunner | None:
        """One of them by name; None where it is none of them (any more)."""
        return self._by_name.get(name)

    def dispatcher(self, name: str) -> PluginRunner:
        """One of them by name."""
        return self._by_name[name]

    def find(self, name: str) -> PluginRunner | None:
        """One of them by name; None where it was taken away, as may happen at any moment."""
        return self._by_name.get(name)

    def limit(self) -> int:
        """Physical offset up to which may be dispatched now."""
        limit = self._limit()
        if limit != self._seen_limit:
            if self._seen_limit >= 0:
                self._grew_at = time.monotonic()
            self._seen_limit = limit
        return limit

    def is_busy(self) -> bool:
        """Whether messages are arriving, so that nobody should be long in anybody's way."""
        return self._is_growing and not self.hurry.is_set()

    @property
    def _is_growing(self) -> bool:
        return time.monotonic() - self._grew_at < _BUSY_SECONDS

    def is_throttled(self, each: PluginRunner) -> bool:
        """Whether a slow plugin leaves the processor to the others: nobody waits for it."""
        awaited = any(names is None or each.name in names for names in list(self._awaited))
        return self._is_growing and not awaited and not self.stopping

    def is_usable(self, each: PluginRunner) -> bool:
        """Whether hooks of the plugin may be called."""
        return self.halted is None and each.state in (RUNNING, RETRYING) and not each.is_broken

    def is_ready(self, each: PluginRunner) -> bool:
        """Whether the plugin may be given messages now."""
        if self.halted is not None or each.dispatch is None:
            return False
        if each.state == RETRYING:
            return each.retry_at <= self._now() and not self.is_waiting(each)
        return each.state == RUNNING and not self.is_waiting(each)

    def is_waiting(self, each: PluginRunner) -> bool:
        """Whether a plugin that it requires does not run."""
        if not each.requires:
            return False
        needed = [self._by_name.get(name) for name in each.requires]
        return any(other is not None and not self.is_usable(other) for other in needed)

    @property
    def dispatched_offset(self) -> int:
        """Physical offset below which every running plugin has seen everything."""
        positions = [each.position for each in self._counted(None)]
        return min(positions, default=self._limit())

    def _counted(self, names: set[str] | None) -> list[PluginRunner]:
        """Those for whom it makes sense to wait."""
        return [
            each
            for each in self.dispatchers
            if (names is None or each.name in names)
            and each.wants_messages
            and self.halted is None
            and not self.is_waiting(each)
        ]

    def failure_of(self, name: str) -> str | None:
        """Why a plugin does not run; None while it does."""
        each = self._by_name.get(name)
        if each is None or each.state in (RUNNING, RETRYING):
            return None
        return each.last_error or each.state

    def seconds_to_retry(self, lane: Lane) -> float | None:
        """How long a lane may sleep at most."""
        times = [each.retry_at for each in lane.dispatchers if each.state == RETRYING]
        return max(min(times) - self._now(), 0.001) if times else None

    # ------------------------------------------------------------------ what goes wrong

    def failed(self, each: PluginRunner, error: BaseException) -> bool:
        """Take note that a plugin failed on a batch; whether the batch is to be skipped."""
        text = "".join(traceback.format_exception_only(error)).strip()
        policy = self.config.policy_of(each.name)
        with self.lock:
            if each.is_stopped:
                # Somebody suspended it, or a flush of its files failed, while the call was under
                # way. Tried again it would go on as if nothing had been.
                each.last_error = text
                return False
            each.attempts += 1
            each.last_error = text
            no_space = isinstance(error, OSError) and error.errno in _NO_SPACE
            again = no_space or each.attempts <= self.config.retry_count
            if again and not self._is_closing:
                pause_ms = self.config.retry_pause_ms << min(each.attempts - 1, 30)
                pause = min(pause_ms, self.config.retry_max_pause_ms) / 1_000
                if no_space:
                    pause = self.config.retry_max_pause_ms / 1_000
                each.state, each.retry_at = RETRYING, self._now() + pause
                logger.warning(
                    "plugin failed, tried again plugin=%s attempt=%d pause_s=%g error=%s",
                    each.name,
                    each.attempts,
                    pause,
                    text,
                )
                self.changed.set()
                return False
        if policy == SKIP and not no_space:
            return True
        self.failed_outside(each, error)
        return False

    def stalled(self, each: PluginRunner, call: Call) -> None:
        """Take note that a plugin does not return from a call, and does not advance in it."""
        with self.lock:
            if each.state not in (RUNNING, RETRYING):
                return
            each.state, each.stalled_in = STALLED, call.hook
            seconds = self.config.stall_ms / 1_000
            each.last_error = f"{call.hook} has not returned after {seconds:g} s"
        logger.error("plugin stalled plugin=%s hook=%s", each.name, call.hook)
        self.tell()

    def returned(self, name: str, hook: str) -> None:
        """Take note that a plugin came back from a call, perhaps after it was given up."""
        with self.lock:
            each = self._by_name.get(name)
            if each is None or each.state != STALLED or each.stalled_in != hook:
                return
            each.state, each.stalled_in, each.last_error = RUNNING, None, None
        logger.warning("plugin came back plugin=%s", name)
        self.tell()
        self.wake()

    def failed_outside(self, each: PluginRunner, error: BaseException) -> None:
        """Take note that a plugin failed where nothing can be tried again."""
        if isinstance(error, StoreClosedError) and self.stopping:
            return  # the store closes under it
        with self.lock:
            if each.is_stopped:  # by its user, or by what failed first: that stays as it is
                each.last_error = "".join(traceback.format_exception_only(error)).strip()
                return
        if self.config.policy_of(each.name) == HALT:
            self.halt(each.name, error)
        else:
            self.suspend(each.name, error)

    def dead_letter(self, each: PluginRunner, batch: DispatchBatch, error: BaseException) -> bool:
        """Pass over the one message of ``batch``; False when the plugin stops there instead."""
        if each.skipped_in_a_row >= self.config.skip_limit:
            self.suspend(each.name, error)
            return False
        try:
            self._write_dead_letter(each.name, batch, error)
        except OSError as cause:
            logger.error("dead letter not written plugin=%s error=%s", each.name, cause)
            self.suspend(each.name, error)
            return False
        in_a_row = each.skipped_in_a_row + 1
        with self.lock:
            each.passed(batch, 0.0, 0.0)
            each.skipped_in_a_row = in_a_row
            each.skipped_count += 1
        logger.warning(
            "message skipped plugin=%s physical_offset=%d error=%s",
            each.name,
            batch.start_offset,
            error,
        )
        self.changed.set()
        return True

    def suspend(self, name: str, error: BaseException | str, *, asked: bool = False) -> None:
        """Give a plugin no messages any more; its place and its files stay as they are."""
        if isinstance(error, BaseException):
            text: str | None = "".join(traceback.format_exception_only(error)).strip()
            logger.error("plugin suspended plugin=%s", name, exc_info=error)
        else:
            text = error or None
            level = logging.INFO if asked else logging.ERROR
            logger.log(level, "plugin suspended plugin=%s reason=%s", name, text or "asked for")
        with self.lock:
            each = self._by_name[name]
            each.state, each.last_error, each.asked = SUSPENDED, text, asked
        self.tell()

    def halt(self, name: str, error: BaseException) -> None:
        """Stop all dispatching: the plugin must not be left behind."""
        logger.error("dispatching halted plugin=%s", name, exc_info=error)
        with self.lock:
            each = self._by_name[name]
            each.state = HALTED
            each.last_error = "".join(traceback.format_exception_only(error)).strip()
            self.halted = name
        self.tell()

    def resume(self, name: str, position: int) -> None:
        """Give a plugin messages again, from ``position`` on."""
        with self.lock:
            each = self._by_name[name]
            each.position, each.last_record_offset, each.store_timestamp = position, -1, 0
            each.attempts = each.skipped_in_a_row = 0
            each.last_error, each.asked, each.is_broken, each.cut_to = None, False, False, None
            each.stalled_in = None
            each.forget_times()
            if self.halted == name:
                self.halted = None
            self.lanes.move_to_main(each)
            each.state = RUNNING
        self.tell()
        self.wake()

    def tell(self) -> None:
        """The state of a plugin has changed."""
        self.changed.set()
        self.notify_moved()
        self.after_tell()

    def reading_failed(self, lane: Lane, error: Exception) -> float:
        """Take note that the log cannot be read for the plugins of a lane.

        Returns:
            Seconds until it is to be tried again.
        """
        lane.read_failures += 1
        pause_ms = self.config.retry_pause_ms << min(lane.read_failures - 1, 30)
        pause = min(pause_ms, self.config.retry_max_pause_ms) / 1_000
        with self.lock:
            self._unread[lane] = error
        logger.error(
            "log not read, tried again attempt=%d pause_s=%g",
            lane.read_failures,
            pause,
            exc_info=error,
        )
        self.changed.set()
        self.notify_moved()
        return pause

    def reading_works(self, lane: Lane) -> None:
        """Take note that the log can be read again."""
        lane.read_failures = 0
        with self.lock:
            self._unread.pop(lane, None)

    def unread(self, each: PluginRunner) -> str | None:
        """Why the log cannot be read for a plugin, which waits for that; None while it can."""
        with self.lock:
            error = None if each.lane is None else self._unread.get(each.lane)
        if error is None:
            return None
        return "the log cannot be read: " + "".join(traceback.format_exception_only(error)).strip()

    def _reading_failure(self, names: set[str] | None) -> Exception | None:
        """Why the log cannot be read for one of these plugins, also when tried again and again."""
        with self.lock:
            for lane, error in self._unread.items():
                concerned = any(names is None or each.name in names for each in lane.dispatchers)
                if concerned and lane.read_failures > self.config.retry_count:
                    return error
        return None

    def skip_damage(self, batch: DispatchBatch, stop: int) -> int:
        """Next offset at which a record begins behind damage; everything between is lost."""
        hole = self.log.hole_at(batch.end_offset, stop, batch.finding)
        path, position = self.log.path_of(batch.end_offset)
        logger.error(
            "damaged log skipped file=%s position=%d skipped_size=%d reason=%s",
            path,
            position,
            hole.end_offset - batch.end_offset,
            hole.finding,
        )
        try:
            self.log.note_loss(batch.end_offset, hole.end_offset, batch.finding, hole)
        except OSError as error:
            logger.error("loss not noted error=%s", error)
        return hole.end_offset

    # ------------------------------------------------------------------ plugins that come and go

    def add(self, each: PluginRunner) -> None:
        """Drive one plugin more; call `use` with the whole set then."""
        with self.lock:
            self._by_name[each.name] = each
            self.lanes.move_to_main(each)

    def remove(self, name: str) -> PluginRunner:
        """Drive a plugin no more, which is in no call; call `use` with the others then."""
        with self.lock:
            each = self._by_name.pop(name)
            self.lanes.remove(each)
            return each

    # ------------------------------------------------------------------ running

    def step(self) -> bool:
        """Give every plugin that is behind one batch; whether there was any."""
        return self.lanes.main.step()

    def start(self) -> None:
        """Run on threads of its own until `stop`."""
        if self._threads:
            self.lanes.start()

    def stop(self) -> None:
        """End the threads when their rounds are done; one that is stuck in a plugin is left."""
        self.stopping = True
        self.hurry.set()
        self.lanes.stop()

    def wake(self) -> None:
        """There may be something to do."""
        self.lanes.wake()

    def wait_moved(self, seconds: float) -> None:
        """Wait until somebody's place or state changes, at most so long."""
        self._moved.wait(seconds)

    def notify_moved(self) -> None:
        """Somebody's place or state has changed."""
        moved, self._moved = self._moved, Flag()
        moved.set()

    # ------------------------------------------------------------------ waiting

    def finish(self, timeout: float) -> bool:
        """Bring everybody to the end for the last time: nobody is tried again later."""
        with self.lock:
            self._is_closing = True
            for each in self.dispatchers:
                each.retry_at = 0.0
        self.wake()
        try:
            return self.wait(self.log.max_physical_offset, timeout)
        except (OSError, ReputError) as error:
            # No reason to leave the rest undone: everybody keeps the place that it has.
            logger.error("dispatching not finished error=%s", error)
            return False

    def wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None = None,
        names: set[str] | None = None,
    ) -> bool:
        """Wait until every running plugin has seen everything below ``physical_offset``.

        Args:
            physical_offset: the end to wait for.
            timeout: seconds; None waits for ever.
            progress: called now and then with the offset reached, on this thread.
            names: plugins to wait for; all when left out.

        Raises:
            OSError: the log cannot be read, again and again.
            CorruptFileError: a file of it was changed by others.
        """
        try:
            with self.lock:
                self._awaited.append(names)
            self.hurry.set()
            self.lanes.release()
            return self._wait(physical_offset, timeout, progress, names)
        finally:
            with self.lock:
                if names in self._awaited:  # else an interrupt came first
                    self._awaited.remove(names)
                if not self._awaited and not self.stopping:
                    self.hurry.clear()

    def _wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None,
        names: set[str] | None,
    ) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout

        def reached() -> int:
            positions = [each.position for each in self._counted(names)]
            return min(positions, default=physical_offset)

        while reached() < physical_offset:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            failure = self._reading_failure(names)
            if failure is not None:
                raise failure
            if progress is not None:
                progress(reached())
            if self.lanes.main.thread is None:
                if self.lanes.main.is_stepping_here:
                    return False
                if not self.step():
                    self.lanes.main.sleep_to_retry()
                continue
            moved = self._moved
            if reached() < physical_offset:
                longest = _LONGEST_WAIT if progress is None else 0.1
                moved.wait(longest if left is None else min(left, longest))
        if progress is not None:
            progress(min(reached(), physical_offset))
        return True

"""`ReadGroup`: plugins for which one thread reads the log.

By default all plugins share one group, so that each batch is read and decoded once. A plugin that
sleeps or works long in every batch is split off into a group of its own; it joins the shared group
again when it has caught up and is quick. A plugin that does not return from a call keeps its
thread, as a group of its own, and the other plugins get a new thread.

A round reads one window at each position of the log where members are, and dispatches it to these.
The foremost position comes first, so that new messages do not wait for old ones. While messages
arrive, windows at other positions are short. While none arrive, members wait for members that are
close before them, so that the log is read once for both.

One thread reads at several positions because of a measurement: in a group of its own, with its
rests, a new plugin caught up at a fifth of the speed while messages arrived; without rests, no
faster.
"""

from __future__ import annotations

import errno
import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.dispatch.config import Retries
from reput.dispatch.runtime.pluginrunner import ENRICH
from reput.dispatch.runtime.pluginstate import Phase
from reput.record.decode import End
from reput.signalsafe import SafeEvent, new_lock

if TYPE_CHECKING:
    from reput.dispatch.runtime.groupcontext import GroupContext
    from reput.dispatch.runtime.hookcalls import Call
    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.log.reader.batchreader import BatchReader, PrefetchingReader
    from reput.record.batch import DispatchBatch
    from reput.record.decode import DecodeResult

logger = logging.getLogger(__name__)

LONGEST_REST: Final = 1.0  # seconds; then a thread checks again
_SMALL_ROUND: Final = 64 << 10  # bytes
_PAUSE: Final = 0.002  # seconds
_SMALL_TIMES: Final = 9  # times the processor time of a small round: a tenth of a processor
_LONGEST_SMALL: Final = 0.01  # seconds
_SHORT_WINDOW: Final = 32 << 10  # bytes, at least
_SHORT_SECONDS: Final = 0.001
CAUGHT_UP: Final = 64 << 10
"""Bytes of the log; a plugin that lacks at most this many has caught up."""
LONGEST_PAUSE: Final = 0.25
"""Seconds; messages wait little longer for a plugin that keeps up."""
_LONGEST_REST: Final = 19.0  # times the processor time of the round: a twentieth of a processor
_SHORTEST_REST: Final = 1.0  # half a processor


class ReadGroup:
    """Reads for some plugins, on a thread of its own or step by step."""

    def __init__(self, feed: GroupContext, *, is_shared: bool) -> None:
        """Make a group without plugins, which does not run yet."""
        self.feed = feed
        self._board = feed.board
        self.is_shared = is_shared
        """Whether this is the shared group, and not a single plugin's; also set by the loop."""
        self.thread: threading.Thread | None = None
        self.awake = SafeEvent()
        """Set when there may be work, or a rest may end."""
        self.step_lock = new_lock(runs_hooks=True)
        self._is_stepping = False
        self.read_error: Exception | None = None
        """Why the log could not be read the last time; None if it could."""
        self._read_retries = Retries(self._board.config)
        self._reader: PrefetchingReader | None = None
        """Reads at the foremost position; made when there is something to read."""
        self._short_size = self._window_size = feed.log.config.window_size
        self._behind: BatchReader | None = None
        """Reads at positions before the foremost, while members are there: it holds a window."""
        self._pace = Throttle()
        self._was_small = False
        """Whether in the last round all members were at one position, with little to read."""
        self._is_pressed = False
        """Whether messages came during the last rest."""

    @property
    def runners(self) -> list[PluginRunner]:
        """The group's members, in dispatch order."""
        return [runner for runner in self._board.runners.values() if runner.group is self]

    # ------------------------------------------------------------------ one round

    def step(self) -> bool:
        """Do one round: read one window at each position; return whether there was any to read."""
        with self.step_lock:
            if self._is_stepping:
                return False  # this is a signal handler that interrupted a step on its thread
            try:
                self._is_stepping = True
                is_done = self._round()
            finally:
                self._is_stepping = False
        if self.read_error is not None:
            self._read_retries.succeeded()
            self.read_error = None
        if is_done:
            self._board.notify_moved()
        return is_done

    @property
    def is_stepping_here(self) -> bool:
        """Whether this thread is in a step: a signal handler cannot wait for the group."""
        with self.step_lock:
            return self._is_stepping

    def _round(self) -> bool:
        runners = self.runners
        limit, is_busy = self.feed.limit(), self.feed.is_busy(runners)
        ready = [runner for runner in runners if runner.may_dispatch]
        places = sorted({runner.place.position for runner in ready})
        self._was_small = len(places) == 1 and limit - places[0] < _SMALL_ROUND
        to_read = [place for place in places if place < limit]
        if len(places) == 1:
            self._behind = None
        if len(to_read) > 1 and not is_busy:
            to_read = self._without_awaiting(to_read, limit)
        for place in reversed(to_read):
            is_front = place == places[-1]
            stop = limit if is_front else min(places[places.index(place) + 1], limit)
            if self._reader is None:
                self._reader = self.feed.log.read_ahead()
            reader: PrefetchingReader | BatchReader = self._reader
            if not is_front and (is_busy or len(to_read) > 1):
                # Not the prefetching reader: its window for the front would be thrown away.
                reader = self._behind = self._behind or self.feed.log.window_reader()
                reader.window_size = self._short_size if is_busy else self._window_size
            began = time.perf_counter()
            here = [runner for runner in ready if runner.place.position == place]
            self._advance(reader.read(place, stop), here, place, stop, is_front=is_front)
            if not is_front:
                self._size_windows(time.perf_counter() - began)
        return bool(to_read)

    def _without_awaiting(self, places: list[int], limit: int) -> list[int]:
        """Return ``places`` except places that members close before them are about to reach.

        Whenever a store is opened, an index that dispatches its last record again is one record
        before the queues, and would stay so: everything would be read and decoded twice.
        """
        near = self._window_size
        awaiting = {
            place
            for other, place in itertools.pairwise(places)
            if place - other <= near <= limit - place
        }
        return [place for place in places if place not in awaiting]

    def _advance(
        self,
        result: DecodeResult,
        here: list[PluginRunner],
        start: int,
        stop: int,
        *,
        is_front: bool,
    ) -> None:
        batch = result.batch
        if len(batch) == 0:
            end = batch.end_offset
            if result.end != End.BLANK:
                end = self.feed.skip_damage(batch, stop)
            with self._board.lock:
                # The search for the next record took a while: a plugin that was resumed meanwhile,
                # at an older position, is not moved.
                for runner in here:
                    if runner.group is self:
                        runner.advance(start, end)
            return
        for runner, _ in self.feed.enrichers:
            # Without threads nothing opens it while somebody waits for messages here.
            if runner.is_opened_again and self._board.calls.threads:
                reason = f"plugin {runner.name!r}, which adds columns, is not open yet"
                for each in here:
                    each.batch_failed(OSError(errno.ENOSPC, reason))
                return
        enriched = self._enriched(batch)
        if enriched is None:
            return
        for runner in here:
            call = self._dispatch(runner, enriched, start)
            if call is not None and call.error is not None and runner.batch_failed(call.error):
                self._skip(runner, enriched, call.error)
        # Readers were woken too early if the queues they read come only now.
        if (is_front and self.is_shared) or any(runner.hooks.read for runner in here):
            self._wake_readers(enriched)

    def _wake_readers(self, batch: DispatchBatch) -> None:
        for runner, arrive in self.feed.arrivers:
            call = self._make(runner, "reput_arrive", functools.partial(arrive, batch=batch))
            if call is None and self._board.is_stopping:
                return
            if call is not None and call.error is not None:
                runner.stop(call.error)
        for watch in self.feed.watchers:
            watch(batch)

    def _make(self, runner: PluginRunner, hook: str, function: Callable[[], Any]) -> Call | None:
        """Call a hook that another group may be inside of, which is waited for.

        The watch marks a plugin that hangs in the hook as stalled, and then no group waits for it.

        Returns:
            The call; None if the plugin does not run, or the loop stops.
        """
        while not (call := runner.make(hook, function)) and runner.may_make(hook):
            if self._board.is_stopping:
                break
            if other := runner.inside(hook):
                other.wait(0.1)
            elif runner.is_reopening:
                self._board.moved.wait(0.1)
        return call

    def _size_windows(self, seconds: float) -> None:
        if seconds > _SHORT_SECONDS:
            self._short_size = max(self._short_size // 2, min(_SHORT_WINDOW, self._window_size))
        elif seconds < 0.5 * _SHORT_SECONDS:
            self._short_size = min(self._short_size * 2, self._window_size)

    def _enriched(self, batch: DispatchBatch) -> DispatchBatch | None:
        """Return the batch with the columns that plugins add; None if one halts dispatching."""
        for runner, enrich in self.feed.enrichers:
            call = self._make(runner, ENRICH, functools.partial(enrich, batch=batch))
            if call is None:
                if self._board.is_stopping:
                    return None
                continue
            error = call.error
            if error is None and call.result:
                try:
                    batch = batch.with_columns(call.result)
                except Exception as not_columns:
                    error = not_columns
            if error is not None:
                runner.enrich_failed(error)
            if self._board.halted:
                return None
        return batch

    def _skip(self, runner: PluginRunner, batch: DispatchBatch, error: BaseException) -> bool:
        """Dispatch ``batch`` up to a message that the plugin fails on: it is skipped, or named.

        The batch is halved again and again, so that one bad message among thousands costs some
        calls, and not thousands.

        Returns:
            False if the plugin stops before the end.
        """
        if len(batch) == 1:
            return self.feed.dead_letter(runner, batch, error)
        middle = len(batch) // 2
        for part in (batch[:middle], batch[middle:]):
            call = self._dispatch(runner, part, part.start_offset)
            if call is None:
                return False
            if call.error is not None and not self._skip(runner, part, call.error):
                return False
        return True

    # ------------------------------------------------------------------ inside of plugins

    def _dispatch(self, runner: PluginRunner, batch: DispatchBatch, start: int) -> Call | None:
        """Call `reput_dispatch`, and move the plugin past the batch.

        Returns:
            The call, with its result or error; None if it must not be made.
        """
        hook = runner.hooks.dispatch
        assert hook is not None
        function = functools.partial(hook, batch=batch)
        started, used = time.perf_counter(), time.thread_time()

        def then(call: Call) -> None:
            if call.error is None:
                # Before the call is done: a thread that waits for it relies on the new place.
                seconds, processor = time.perf_counter() - started, time.thread_time() - used
                runner.passed(batch, seconds, processor)

        return runner.make("reput_dispatch", function, at=start, then=then, by=self)

    @property
    def call(self) -> Call | None:
        """The call that the group's thread is in; None outside of plugins."""
        ident = None if self.thread is None else self.thread.ident
        return next((each for each in self._board.calls.running() if each.thread == ident), None)

    def find_stalled(self) -> PluginRunner | None:
        """Return the plugin in whose call the group's thread hangs, and mark it as stalled.

        The plugin may be no member any more.
        """
        if (call := self.call) is None:
            return None
        runner = self._board.runners.get(call.plugin)
        return runner if runner is not None and runner.mark_if_stalled(call) else None

    # ------------------------------------------------------------------ rests

    def has_work(self) -> bool:
        """Whether a member that may dispatch has messages to read."""
        limit = self.feed.limit()
        return any(runner.position < limit and runner.may_dispatch for runner in self.runners)

    def seconds_to_retry(self) -> float | None:
        """Return how long until the first retry; None if no member is to be retried."""
        times = [runner.retries.at for runner in self.runners if runner.phase is Phase.RETRYING]
        return max(min(times) - self._board.now(), 0.001) if times else None

    def rest(self, used: float) -> None:
        """Rest after a round that used ``used`` seconds of processor time."""
        if not self.is_shared:
            # This group shares processor time with the others, so it limits its use.
            limit = self.feed.limit()
            behind = limit - min((each.position for each in self.runners), default=limit)
            pause = self._pace.pause(used, behind)
        elif self._was_small:
            # A round of one message takes as much time from producers as one of hundreds. A single
            # message is dispatched at once, and then rounds are not more frequent than this. If
            # messages came during the last rest, they come all the time: rounds are less frequent
            # then, where the processor is slow or there are many plugins.
            pause = _PAUSE
            if self._is_pressed:
                pause = min(max(pause, _SMALL_TIMES * used), _LONGEST_SMALL)
        else:
            return
        self._rest(pause, lambda: self.feed.is_busy(self.runners))
        self._is_pressed = self.has_work()

    @property
    def unreadable(self) -> Exception | None:
        """Why the log cannot be read, if retries have failed, too; else None."""
        return self.read_error if self._read_retries.are_over else None

    def reading_failed(self, error: Exception) -> None:
        """Note that the log cannot be read, and rest until a caller begins to wait."""
        self.read_error = error
        pause = self._read_retries.failed(error, self._board.now())
        logger.error(
            "log not read, tried again attempt=%d pause_s=%g",
            self._read_retries.count,
            pause,
            exc_info=error,
        )
        self._board.changed.set()
        self._board.notify_moved()
        awaited = self.feed.awaited
        self._rest(pause, lambda: self.feed.awaited is awaited and not self._board.is_stopping)

    def _rest(self, seconds: float, may_rest: Callable[[], bool]) -> None:
        """Sleep for ``seconds``, or until woken while ``may_rest`` returns false."""
        end = time.monotonic() + seconds
        while True:
            self.awake.clear()  # before `may_rest`: later changes set it again
            left = end - time.monotonic()
            if left <= 0 or not may_rest():
                return
            self.awake.wait(left)

    def close(self) -> None:
        """End the reading thread."""
        if self._reader is not None:
            self._reader.close()


@attrs.define
class Throttle:
    """Chooses the rests of one thread: long ones while the plugin keeps up with the log.

    After each round that leaves a plugin behind, its rests are half as long. With rests of a fixed
    length, a plugin that needs a quarter of a processor would never catch up.
    """

    _times: float = _LONGEST_REST

    def pause(self, used: float, behind: int) -> float:
        """Return how long to rest after a round, seconds.

        Args:
            used: processor time of the round, seconds.
            behind: bytes of the log that the plugin has not seen after the round.
        """
        if behind <= CAUGHT_UP:
            self._times = min(2 * self._times, _LONGEST_REST)
        else:
            self._times = max(self._times / 2, _SHORTEST_REST)
        return max(min(self._times * used, LONGEST_PAUSE), min(used, 4 * LONGEST_PAUSE))

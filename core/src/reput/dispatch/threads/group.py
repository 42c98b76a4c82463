"""`ReadGroup`: plugins for which one thread reads the log.

All plugins share one group, and with it each batch that was read and decoded. One that sleeps or
works long in every batch is split from it, into a group of its own, until it has caught up and is
quick again: then it joins the others. One that does not return from a call keeps the thread that it
is in, as a group of its own, and the others get a new one.

A round reads one window at each place of the log where members stand, and gives it to those. The
front comes first: what waits for new messages must not wait for the past. While messages arrive,
windows before the front are short. While none do, members wait for those that are close before
them, and the log is read once for both.

One thread reads at several places because that was measured: in a group of its own, with its rests,
a new plugin caught up beside live messages at a fifth of the speed; without rests no faster.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from reput.dispatch.calls import is_users_interrupt
from reput.dispatch.forking import end_forked_thread
from reput.dispatch.phase import Phase
from reput.flags import Flag
from reput.locks import new_lock
from reput.log.reading.windows import BatchReader
from reput.record.decode import Decoder, End

if TYPE_CHECKING:
    from reput.dispatch.calls import Call
    from reput.dispatch.runner import PluginRunner
    from reput.dispatch.threads.feed import Feed
    from reput.log.reading.windows import PrefetchingReader
    from reput.plugin.host.hooktable import BatchHook, EnrichHook
    from reput.record.batch import DispatchBatch
    from reput.record.decode import DecodeResult

logger = logging.getLogger(__name__)

__all__ = ["LONGEST_REST", "ReadGroup"]

LONGEST_REST: Final = 1.0  # seconds; then a thread looks for itself
_SMALL_ROUND: Final = 64 << 10  # bytes
_PAUSE: Final = 0.002  # seconds
_SHORT_WINDOW: Final = 32 << 10  # bytes, at least
_SHORT_SECONDS: Final = 0.001
_SHARE: Final = 19  # a slow plugin rests this many times the processor time that it used


class ReadGroup:
    """Reads for some plugins, on a thread of its own or step by step."""

    def __init__(self, feed: Feed, runners: list[PluginRunner], *, is_shared: bool) -> None:
        """Make the group of some plugins, which does not run yet."""
        self.feed = feed
        self._board = feed.board
        self.runners = runners
        """Its members. The loop replaces them whole, under the board's lock."""
        self.is_shared = is_shared
        """Whether it is that of all who need none of their own; set by the loop as well."""
        self.call: Call | None = None
        """Set while the group is inside of a plugin."""
        self.thread: threading.Thread | None = None
        self.awake = Flag()
        """Set when there may be something to do, or a rest may be over."""
        self._step_lock = new_lock()
        self._is_stepping = False
        self.read_error: Exception | None = None
        """Why the log could not be read the last time; None where it could."""
        self._read_failures = 0
        """How often in a row it could not."""
        self._reader = feed.log.read_ahead()
        self._window_size = feed.log.config.window_size
        self._short_size = self._window_size
        self._readers: dict[int, BatchReader] = {}
        """By size of their windows, for places before the front."""
        self._was_small = False
        """Whether all stood together in the last round, with little to read."""

    # ------------------------------------------------------------------ one round

    def step(self) -> bool:
        """Read one window at each place; whether there was any to read."""
        with self._step_lock:
            if self._is_stepping:
                return False  # a signal handler on this very thread
            try:
                self._is_stepping = True
                is_done = self._round()
            finally:
                self._is_stepping = False
        self._read_failures, self.read_error = 0, None
        if is_done:
            self._board.notify_moved()
        return is_done

    @property
    def is_stepping_here(self) -> bool:
        """Whether this very thread is in a step: a signal handler cannot wait for the group."""
        with self._step_lock:
            return self._is_stepping

    def _round(self) -> bool:
        limit, is_busy = self.feed.limit(), self.feed.is_busy(self.runners)
        places = sorted({each.position for each in self._ready()})
        self._was_small = len(places) == 1 and limit - places[0] < _SMALL_ROUND
        to_read = [place for place in places if place < limit]
        if not is_busy:
            to_read = self._without_awaiting(to_read, limit)
        for place in reversed(to_read):
            stop = next((other for other in places if place < other < limit), limit)
            is_front = place == places[-1]
            reader: PrefetchingReader | BatchReader = self._reader
            if not is_front and (is_busy or len(to_read) > 1):
                # Not with that one: what it has read ahead for the front would be thrown away.
                size = self._short_size if is_busy else self._window_size
                if size not in self._readers:
                    self._readers[size] = BatchReader(self.feed.log.files, Decoder(), size)
                reader = self._readers[size]
            began = time.perf_counter()
            self._advance(reader.read(place, stop), place, stop, is_front=is_front)
            if not is_front:
                self._size_windows(time.perf_counter() - began)
        return bool(to_read)

    def _without_awaiting(self, places: list[int], limit: int) -> list[int]:
        """``places`` without those that members close before them are about to reach.

        An index that dispatches its last record once more stands one record before the queues
        whenever a store is opened, and would stay there: all would be read and decoded twice.
        """
        near = self._window_size
        awaiting = {
            place
            for other, place in itertools.pairwise(places)
            if place - other <= near <= limit - place
        }
        return [place for place in places if place not in awaiting]

    def _ready(self) -> list[PluginRunner]:
        runners = self.runners
        return [
            each
            for each in self._board.runners.values()  # in dispatch order
            if each in runners and each.may_dispatch
        ]

    def _advance(self, result: DecodeResult, start: int, stop: int, *, is_front: bool) -> None:
        batch = result.batch
        here = [each for each in self._ready() if each.position == start]
        if len(batch) == 0:
            end = batch.end_offset
            if result.end != End.BLANK:
                end = self.feed.skip_damage(batch, stop)
            with self._board.lock:
                # Looking for the next record took a while: a plugin that was resumed meanwhile, at
                # an older place, is not moved.
                for each in here:
                    if each in self.runners:
                        each.advance(start, end)
            return
        enriched = self._enriched(batch)
        if enriched is None:
            return
        for each in here:
            call = self._make(each, "reput_dispatch", each.hooks.dispatch, enriched, start)
            if call is not None and call.error is not None and each.failed(call.error):
                self._skip(each, enriched, call.error)
        if is_front and self.is_shared:
            for each, arrive in self.feed.arrivers:
                call = self._make(each, "reput_arrive", arrive, enriched)
                if call is not None and call.error is not None:
                    each.fail(call.error)

    def _size_windows(self, seconds: float) -> None:
        if seconds > _SHORT_SECONDS:
            self._short_size = max(self._short_size // 2, min(_SHORT_WINDOW, self._window_size))
        elif seconds < 0.5 * _SHORT_SECONDS:
            self._short_size = min(self._short_size * 2, self._window_size)

    def _enriched(self, batch: DispatchBatch) -> DispatchBatch | None:
        """The batch with what plugins add to it; None when one of them stops everything."""
        for each, enrich in self.feed.enrichers:
            # Two groups may read at once, and a hook is never called twice at once. A plugin that
            # hangs in there is marked as such by the watch, and then no group waits for it.
            while not (call := self._make(each, "reput_enrich", enrich, batch)) and each.is_usable:
                if self.feed.is_over:
                    return None
                if other := each.inside("reput_enrich"):
                    other.wait(0.1)
            if call is None:
                continue
            error = call.error
            if error is None and call.result:
                try:
                    batch = batch.with_columns(call.result)
                except Exception as not_columns:
                    error = not_columns
            if error is not None:
                each.fail(error)
            if self._board.halted:
                return None
        return batch

    def _skip(self, each: PluginRunner, batch: DispatchBatch, error: BaseException) -> bool:
        """Dispatch what can be dispatched of ``batch``, and note down the rest as dead letters.

        In halves: one bad message among thousands then costs some calls more, and not thousands.

        Returns:
            False where the plugin stops in the middle.
        """
        if len(batch) == 1:
            return self.feed.dead_letter(each, batch, error)
        middle = len(batch) // 2
        for part in (batch[:middle], batch[middle:]):
            call = self._make(each, "reput_dispatch", each.hooks.dispatch, part, part.start_offset)
            if call is None:
                return False
            if call.error is not None and not self._skip(each, part, call.error):
                return False
        return True

    # ------------------------------------------------------------------ inside of plugins

    def _make(
        self,
        each: PluginRunner,
        name: str,
        hook: BatchHook | EnrichHook | None,
        batch: DispatchBatch,
        start: int | None = None,
    ) -> Call | None:
        """Call a hook with a batch, and take note of it where the plugin was given messages.

        Args:
            each: the plugin.
            name: the hook's.
            hook: None for a plugin that has it not.
            batch: what the hook is given.
            start: where the plugin must stand, for `reput_dispatch`.

        Returns:
            The call that was made, with its result or error; None where it must not be made.
        """
        assert hook is not None
        call = each.ready(name)
        try:
            with self._board.lock:
                if start is not None and each not in self.runners:
                    return None
                if not each.begin(call, at=start):
                    return None
                self.call = call
            started, used = time.perf_counter(), time.thread_time()
            try:
                call.result = hook(batch=batch)
            except BaseException as error:
                if is_users_interrupt(error):
                    raise
                call.error = error
            finally:
                end_forked_thread(self.feed.process)
            if start is not None and call.error is None:
                seconds, used = time.perf_counter() - started, time.thread_time() - used
                # Before the call ends: who waits for the plugin to be outside takes it for granted
                # that the new place is known.
                self.call = None
                each.passed(batch, seconds, used)
        finally:
            call.is_done = True
            self.call = None
            self._board.calls.end(call)
        return call

    def stuck_in(self) -> PluginRunner | None:
        """The plugin that the group's thread does not come back from, perhaps taken out since."""
        call = self.call
        each = None if call is None else self._board.runners.get(call.plugin)
        return each if each is not None and call is not None and each.is_stuck(call) else None

    # ------------------------------------------------------------------ rests

    def has_work(self) -> bool:
        """Whether there is something to read."""
        limit = self.feed.limit()
        return any(each.position < limit for each in self._ready())

    def seconds_to_retry(self) -> float | None:
        """How long the group may sleep at most; None where none of it is to be tried again."""
        times = [each.retry_at for each in self.runners if each.phase is Phase.RETRYING]
        return max(min(times) - self._board.now(), 0.001) if times else None

    def rest(self, used: float) -> None:
        """Leave the processor to others after a round that took ``used`` seconds of it."""
        if not self.is_shared:
            # Processor time is the one thing that this group shares with the others.
            pause = min(_SHARE * used, LONGEST_REST)
        elif self._was_small:
            # A round of one message takes as long as one of hundreds, and takes it from the
            # producers. What is put alone is dispatched at once, and then not more often than this.
            pause = _PAUSE
        else:
            return
        self._rest(pause, lambda: self.feed.is_busy(self.runners))

    @property
    def unreadable(self) -> Exception | None:
        """Why the log cannot be read, also when that is tried again and again."""
        return self.read_error if self._read_failures > self._board.config.retry_count else None

    def reading_failed(self, error: Exception) -> None:
        """Say that the log cannot be read, and rest; a caller that begins to wait ends that."""
        self.read_error = error
        self._read_failures += 1
        pause = self._board.config.pause_seconds(self._read_failures)
        logger.error(
            "log not read, tried again attempt=%d pause_s=%g",
            self._read_failures,
            pause,
            exc_info=error,
        )
        self._board.changed.set()
        self._board.notify_moved()
        awaited = self.feed.awaited
        self._rest(pause, lambda: self.feed.awaited is awaited and not self.feed.is_over)

    def _rest(self, seconds: float, may_rest: Callable[[], bool]) -> None:
        """Sleep for so long, or until the answer of ``may_rest`` has changed and all are woken."""
        end = time.monotonic() + seconds
        while True:
            self.awake.clear()  # first: what changes from here on sets it again
            left = end - time.monotonic()
            if left <= 0 or not may_rest():
                return
            self.awake.wait(left)

    def close(self) -> None:
        """End the reading thread."""
        self._reader.close()

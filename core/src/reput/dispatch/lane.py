"""`Lane`: one thread of the reput loop, and the plugins that it drives.

All plugins share the main lane, and with it each batch that was read and decoded. One that does not
return from a call keeps the thread that it is in, as a lane of its own, and the others go on in a
new main lane. One that sleeps or works long in every batch gets a lane of its own as well, until it
has caught up and is quick again.

Within a lane, plugins that stand at the same place form a cohort and share a batch. The one at the
log's end comes first; those behind get a slice in turn, a short one while messages are arriving.
When none are, a cohort waits for one that is close behind, and the log is read once for both.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reput.dispatch.calls import is_users_interrupt
from reput.dispatch.forking import end_forked_thread
from reput.dispatch.phase import Phase
from reput.flags import Flag
from reput.locks import new_lock
from reput.log.reading.windows import BatchReader
from reput.record.decode import Decoder, End

if TYPE_CHECKING:
    from reput.dispatch.calls import Call
    from reput.dispatch.feed import Feed
    from reput.dispatch.runner import PluginRunner
    from reput.plugin.host.hooktable import BatchHook, EnrichHook
    from reput.record.batch import DispatchBatch
    from reput.record.decode import DecodeResult

logger = logging.getLogger(__name__)

__all__ = ["Lane"]

_SMALL_ROUND = 64 << 10  # bytes
_PAUSE = 0.002  # seconds
_SLICE_SIZE = 32 << 10  # bytes, at least
_SLICE_SECONDS = 0.001
_SHARE = 19  # a slow plugin's lane pauses this many times the processor time that it used
_LONGEST_PAUSE = 1.0


class Lane:
    """Drives some plugins, on a thread of its own or step by step."""

    def __init__(
        self,
        feed: Feed,
        runners: list[PluginRunner],
        *,
        is_main: bool,
        wake: Callable[[], None],
        take_home: Callable[[Lane], bool],
    ) -> None:
        """Make a lane that does not run yet.

        Args:
            feed: what it reads.
            runners: the plugins that it drives.
            is_main: whether it is the one for all that need none of their own.
            wake: has all lanes look for work; called when the log has grown.
            take_home: takes the plugin of a side lane back into the main one, where it can.
        """
        self.feed = feed
        self._board = feed.board
        self._wake, self._take_home = wake, take_home
        self.runners = runners
        """Replaced whole, under the board's lock."""
        self.is_main = is_main
        self.call: Call | None = None
        """Set while the lane is inside of a plugin."""
        self.work = Flag()
        self.released = Flag()
        """Set when a pause is to end: somebody waits, or the loop stops."""
        self.thread: threading.Thread | None = None
        self._step_lock = new_lock()
        self._is_stepping = False
        self.read_failures = 0
        """How often in a row the log could not be read."""
        self.read_error: Exception | None = None
        """Why not; None where it could be read the last time."""
        self._reader = feed.log.read_ahead()
        self._slice_limit = feed.log.config.window_size
        self._slice_size = self._slice_limit
        self._slice_readers: dict[int, BatchReader] = {}
        self._is_catching_up = False
        """Whether somebody was behind the others in the last round."""

    # ------------------------------------------------------------------ one round

    def step(self) -> bool:
        """Give every cohort that is behind one batch; whether there was any."""
        with self._step_lock:
            if self._is_stepping:
                return False  # a signal handler on this very thread
            try:
                self._is_stepping = True
                behind = self._step()
            finally:
                self._is_stepping = False
        if behind:
            self._board.notify_moved()
        return behind

    @property
    def is_stepping_here(self) -> bool:
        """Whether this very thread is in a step: a signal handler cannot wait for the lane."""
        with self._step_lock:
            return self._is_stepping

    def _step(self) -> bool:
        limit = self.feed.limit()
        places = sorted({each.position for each in self._ready()})
        behind = self._apart([place for place in places if place < limit], limit)
        # The cohort at the end first: what waits for new messages must not wait for the past.
        for place in reversed(behind):
            stop = next((other for other in places if place < other < limit), limit)
            is_last = place == places[-1]
            began = time.perf_counter()
            self._advance(place, stop, is_last=is_last, is_alone=len(behind) == 1)
            if not is_last:
                self._size_slices(time.perf_counter() - began)
        self._is_catching_up = any(place < places[-1] for place in behind)
        return bool(behind)

    def _apart(self, places: list[int], limit: int) -> list[int]:
        """``places`` without those that are about to be joined by the cohort behind them.

        An index that dispatches its last record once more stands one record behind the queues
        whenever a store is opened, and would stay there: all would be read and decoded twice.
        """
        if len(places) < 2 or self.feed.is_busy():
            return places
        near = self._slice_limit
        joined = {
            place
            for other, place in itertools.pairwise(places)
            if place - other <= near <= limit - place
        }
        return [place for place in places if place not in joined]

    def _ready(self) -> list[PluginRunner]:
        return [each for each in self.runners if each.may_dispatch]

    def _advance(self, start: int, stop: int, *, is_last: bool, is_alone: bool) -> None:
        result = self._read(start, stop, is_last=is_last, is_alone=is_alone)
        batch = result.batch
        cohort = [each for each in self._ready() if each.position == start]
        if len(batch) == 0:
            end = batch.end_offset
            if result.end != End.BLANK:
                end = self.feed.skip_damage(batch, stop)
            with self._board.lock:
                # Looking for the next record took a while: who was resumed meanwhile, at an older
                # place, is not moved.
                for each in cohort:
                    if each in self.runners:
                        each.advance(start, end)
            return
        enriched = self._enriched(batch)
        if enriched is None:
            return
        batch = enriched
        for each in cohort:
            self._dispatch(each, batch, start)
        if is_last and self.is_main:
            self._arrive(batch)

    def _read(self, start: int, stop: int, *, is_last: bool, is_alone: bool) -> DecodeResult:
        is_busy = self.feed.is_busy()
        if is_last or (is_alone and not is_busy):
            return self._reader.read(start, stop)
        # Not with that one: what it has read ahead for the others would be thrown away.
        size = self._slice_size if is_busy else self._slice_limit
        reader = self._slice_readers.get(size)
        if reader is None:
            reader = self._slice_readers[size] = BatchReader(self.feed.log.files, Decoder(), size)
        return reader.read(start, stop)

    def _enriched(self, batch: DispatchBatch) -> DispatchBatch | None:
        """The batch with what plugins add to it; None when one of them stops everything."""
        for each, enrich in self.feed.enrichers:
            # Two lanes may read at once, and a hook is never called twice at once. A plugin that
            # hangs in there is marked as such by the watch, and then nobody waits for it.
            while (call := self._make(each, "reput_enrich", enrich, batch)) is None:
                other = each.inside("reput_enrich")
                if not each.is_usable:
                    break
                if self.feed.is_over:
                    return None
                if other is not None:
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

    def _dispatch(self, each: PluginRunner, batch: DispatchBatch, start: int) -> None:
        call = self._make(each, "reput_dispatch", each.hooks.dispatch, batch, start)
        if call is not None and call.error is not None and each.failed(call.error):
            self._skip(each, batch, call.error)

    def _size_slices(self, seconds: float) -> None:
        if seconds > _SLICE_SECONDS:
            self._slice_size = max(self._slice_size // 2, min(_SLICE_SIZE, self._slice_limit))
        elif seconds < 0.5 * _SLICE_SECONDS:
            self._slice_size = min(self._slice_size * 2, self._slice_limit)

    def _skip(self, each: PluginRunner, batch: DispatchBatch, error: BaseException) -> None:
        """Dispatch what can be dispatched of ``batch``, and note down the rest as dead letters.

        In halves: one bad message among thousands then costs some calls more, and not thousands.
        """
        parts = _halves(batch)
        while parts:
            part = parts.pop()
            if len(part) == 1 and len(batch) == 1:
                found: BaseException | None = error
            else:
                call = self._make(
                    each, "reput_dispatch", each.hooks.dispatch, part, part.start_offset
                )
                if call is None:
                    return
                found = call.error
            if found is None:
                continue
            if len(part) > 1:
                parts += _halves(part)
            elif not self.feed.dead_letter(each, part, found):
                return

    def _arrive(self, batch: DispatchBatch) -> None:
        for each, arrive in self.feed.arrivers:
            call = self._make(each, "reput_arrive", arrive, batch)
            if call is not None and call.error is not None:
                each.fail(call.error)

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

    # ------------------------------------------------------------------ running

    def start(self) -> None:
        """Run on a thread of its own until the loop stops."""
        name = "reput-loop" if self.is_main else f"reput-loop-{self.runners[0].name}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()  # may find that there can be none
        self.thread = thread

    def sort(self, names: Sequence[str]) -> None:
        """Call the plugins in this order."""
        self.runners = sorted(self.runners, key=lambda each: names.index(each.name))

    def sleep_to_retry(self) -> None:
        """Wait until the next plugin is to be tried again, if one is."""
        pause = self._seconds_to_retry()
        if pause is not None:
            self.work.wait(pause)

    def close(self) -> None:
        """End the reading thread."""
        self._reader.close()

    def _run(self) -> None:
        while not self.feed.is_over and (self.is_main or self.runners):
            before, used = self._reached(), time.thread_time()
            if self._step_safely():
                self._pause(self._reached() - before, time.thread_time() - used)
                continue
            if not self.is_main and self._take_home(self):
                break
            self.work.clear()
            # Ask to be woken first and look again then: an append in between is seen by the one
            # or by the other.
            self.feed.log.ask_to_wake(self._wake)
            if self._has_work() or self.feed.is_over:
                continue
            self.work.wait(self._seconds_to_retry())
        if not self.is_main:
            self.close()

    def _step_safely(self) -> bool:
        """`step`; where the log cannot be read, say so, wait, and have it tried again."""
        try:
            is_done = self.step()
        except Exception as error:
            pause = self._reading_failed(error)
            self.released.clear()
            if not self.feed.is_over:
                self.released.wait(pause)
            return True
        if self.read_failures:
            self.read_failures, self.read_error = 0, None
        return is_done

    def _reading_failed(self, error: Exception) -> float:
        """Take note that the log cannot be read; seconds until it is to be tried again."""
        self.read_error = error
        self.read_failures += 1
        pause = self._board.config.pause_seconds(self.read_failures)
        logger.error(
            "log not read, tried again attempt=%d pause_s=%g",
            self.read_failures,
            pause,
            exc_info=error,
        )
        self._board.changed.set()
        self._board.notify_moved()
        return pause

    def _seconds_to_retry(self) -> float | None:
        """How long the lane may sleep at most."""
        times = [each.retry_at for each in self.runners if each.phase is Phase.RETRYING]
        return max(min(times) - self._board.now(), 0.001) if times else None

    def _reached(self) -> int:
        return min((each.position for each in self._ready()), default=0)

    def _has_work(self) -> bool:
        limit = self.feed.limit()
        return any(each.position < limit for each in self._ready())

    def _pause(self, size: int, used: float) -> None:
        if not self.is_main:
            self.released.clear()
            if any(self.feed.is_throttled(each) for each in self.runners):
                # Processor time is the one thing that this lane shares with the others.
                self.released.wait(min(_SHARE * used, _LONGEST_PAUSE))
        elif 0 <= size < _SMALL_ROUND and not self._is_catching_up:
            # A round of one message takes as long as one of hundreds, and takes it from the
            # producers. What is put alone is dispatched at once, and then not more often than this.
            self.feed.hurry.wait(_PAUSE)


def _halves(batch: DispatchBatch) -> list[DispatchBatch]:
    """The two halves, second one first; a batch of one as it is."""
    if len(batch) == 1:
        return [batch]
    middle = len(batch) // 2
    return [batch[middle:], batch[:middle]]

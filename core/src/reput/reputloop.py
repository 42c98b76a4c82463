"""The reput loop: reads the log again and hands it, in batches, to the plugins.

Every plugin has a place of its own in the log. Those that stand at the same place form a cohort and
share each batch; a cohort that is behind gets a window in turn with the one at the end, and
stops where the next cohort stands, so that the two go on as one. A plugin that fails is suspended
where it stands, and nobody waits for it.

Source: RocketMQ ``ReputMessageService``, which has one place for all dispatchers.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from reput.decode import End

if TYPE_CHECKING:
    from reput.batch import DispatchBatch
    from reput.logreader import CommitLogReader
    from reput.pluginset import PluginSet

logger = logging.getLogger(__name__)

__all__ = ["Dispatcher", "PluginState", "ReputLoop"]

_SMALL_ROUND = 64 << 10  # bytes
_PAUSE = 0.002  # seconds

RUNNING = "running"
SUSPENDED = "suspended"
READING = "reading"


@attrs.frozen
class PluginState:
    """One active plugin as ``reput plugins PATH`` shows it."""

    name: str
    version: str
    state: str
    """``"running"``, ``"suspended"``, or ``"reading"`` in a read-only store."""
    dispatched_to: int
    """Physical offset below which the plugin has seen everything."""
    lag_size: int
    """Bytes of the log that it has not seen."""
    last_error: str | None = None


@attrs.define(eq=False)
class Dispatcher:
    """One plugin in the loop: its hooks and its place."""

    name: str
    position: int
    """Physical offset of the next message that it needs."""
    dispatch: Callable[..., Any]
    last_record_offset: int = -1
    """Where the last record begins that it was given; -1 when not known."""
    store_timestamp: int = 0
    """Store time of that record, ms."""
    state: str = RUNNING
    last_error: str | None = None


class ReputLoop:
    """Drives the dispatchers of one store, on a thread of its own or step by step."""

    def __init__(
        self,
        log: CommitLogReader,
        plugins: PluginSet,
        positions: dict[str, int],
        limit: Callable[[], int],
    ) -> None:
        """Make the loop; nothing runs yet.

        Args:
            log: the log to read.
            plugins: whose hooks are called.
            positions: physical offset from which each dispatching plugin needs messages.
            limit: end of what may be dispatched now.
        """
        self._log = log
        self._limit = limit
        self._reader = log.read_ahead()
        self.dispatchers = [
            Dispatcher(name, positions[name], function)
            for name, function in plugins.implementing("reput_dispatch")
        ]
        self._enrich = plugins.implementing("reput_enrich")
        self._arrive = plugins.implementing("reput_arrive")
        self._failed: dict[str, str] = {}  # plugins that failed outside of dispatch, and how
        self._step_lock = threading.Lock()
        self._moved = threading.Condition()
        self._work = threading.Event()
        self._hurry = threading.Event()
        """Set while somebody waits for the loop, which then makes no pauses."""
        self._waiting = 0
        self._stopping = False
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------ where everybody stands

    @property
    def dispatched_offset(self) -> int:
        """Physical offset below which every running plugin has seen everything."""
        positions = [each.position for each in self.dispatchers if each.state == RUNNING]
        return min(positions, default=self._limit())

    @property
    def all_running(self) -> bool:
        """Whether no plugin is suspended."""
        return not self._failed and all(each.state == RUNNING for each in self.dispatchers)

    def failure_of(self, name: str) -> str | None:
        """Why a plugin is suspended; None while it runs."""
        for each in self.dispatchers:
            if each.name == name and each.state != RUNNING:
                return each.last_error or SUSPENDED
        return self._failed.get(name)

    def suspend(self, name: str, error: BaseException | str) -> None:
        """Call no hook of a plugin any more; its place and its files stay as they are."""
        if isinstance(error, BaseException):
            text = "".join(traceback.format_exception_only(error)).strip()
            logger.error("plugin suspended plugin=%s", name, exc_info=error)
        else:
            text = error
            logger.error("plugin suspended plugin=%s error=%s", name, text)
        for each in self.dispatchers:
            if each.name == name:
                each.state, each.last_error = SUSPENDED, text
        self._failed[name] = text
        with self._moved:
            self._moved.notify_all()

    # ------------------------------------------------------------------ one round

    def step(self) -> bool:
        """Give every cohort that is behind one window; whether there was any."""
        with self._step_lock:
            limit = self._limit()
            places = sorted({each.position for each in self._running()})
            behind = [place for place in places if place < limit]
            # The cohort at the end first: what waits for new messages must not wait for the past.
            for place in reversed(behind):
                stop = next((other for other in places if place < other < limit), limit)
                self._advance(place, stop, is_first=place == behind[-1])
        if behind:
            with self._moved:
                self._moved.notify_all()
        return bool(behind)

    def _running(self) -> list[Dispatcher]:
        return [each for each in self.dispatchers if each.state == RUNNING]

    def _advance(self, start: int, stop: int, *, is_first: bool) -> None:
        cohort = [each for each in self._running() if each.position == start]
        result = self._reader.read(start, stop)
        batch = result.batch
        if len(batch) == 0:
            end_offset = (
                batch.end_offset if result.end == End.BLANK else self._skip_damage(batch, stop)
            )
            for each in cohort:
                each.position = end_offset
            return
        batch = self._enriched(batch)
        for each in cohort:
            try:
                each.dispatch(batch=batch)
            except BaseException as error:
                self._suspend_or_raise(each.name, error)
                continue
            each.last_record_offset = batch.base_offset + int(batch.start[-1])
            each.store_timestamp = int(batch.store_timestamp[-1])
            each.position = batch.end_offset
        if is_first:
            for name, arrive in self._arrive:
                if name not in self._failed:
                    try:
                        arrive(batch=batch)
                    except BaseException as error:
                        self._suspend_or_raise(name, error)

    def _enriched(self, batch: DispatchBatch) -> DispatchBatch:
        for name, enrich in self._enrich:
            if name in self._failed:
                continue
            try:
                columns = enrich(batch=batch)
                if columns:
                    batch = batch.with_columns(columns)
            except BaseException as error:
                self._suspend_or_raise(name, error)
        return batch

    def _skip_damage(self, batch: DispatchBatch, stop: int) -> int:
        """Next offset at which a record begins behind damage; everything between is lost."""
        end_offset = self._log.next_record(batch.end_offset + 1, stop)
        reason = batch.finding or "no record where the log should go on"
        path, position = self._log.path_of(batch.end_offset)
        logger.error(
            "damaged log skipped file=%s position=%d skipped_size=%d reason=%s",
            path,
            position,
            end_offset - batch.end_offset,
            reason,
        )
        return end_offset

    def _suspend_or_raise(self, name: str, error: BaseException) -> None:
        # Ctrl-C reaches the main thread only, and then it is the user's and no plugin's.
        on_main = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and on_main:
            raise error
        self.suspend(name, error)

    # ------------------------------------------------------------------ running

    def catch_up(self, names: set[str]) -> None:
        """Step until the named plugins have seen everything, or were suspended."""
        while any(each.name in names and each.position < self._limit() for each in self._running()):
            self.step()

    def start(self) -> None:
        """Run on a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._run, name="reput-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread when its round is done."""
        self._stopping = True
        self._work.set()
        self._hurry.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._reader.close()

    def wake(self) -> None:
        """There may be something to do."""
        self._work.set()

    def _run(self) -> None:
        while not self._stopping:
            before = self.dispatched_offset
            if self.step():
                if self.dispatched_offset - before < _SMALL_ROUND:
                    # A round of one message takes as long as one of hundreds, and takes it from
                    # the producers. What is put alone is dispatched at once, and then not more
                    # often than this.
                    self._hurry.wait(_PAUSE)
                continue
            self._work.clear()
            # Ask to be woken first and look again then: an append in between is seen by the one
            # or by the other.
            self._log.ask_to_wake(self._work.set)
            if self._has_work() or self._stopping:
                continue
            self._work.wait()

    def _has_work(self) -> bool:
        limit = self._limit()
        return any(each.position < limit for each in self._running())

    def wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None = None,
    ) -> bool:
        """Wait until every running plugin has seen everything below ``physical_offset``.

        Args:
            physical_offset: the end to wait for.
            timeout: seconds; None waits for ever.
            progress: called now and then with the offset reached, on this thread.
        """
        with self._moved:
            self._waiting += 1
            self._hurry.set()
        try:
            return self._wait(physical_offset, timeout, progress)
        finally:
            with self._moved:
                self._waiting -= 1
                if not self._waiting and not self._stopping:
                    self._hurry.clear()

    def _wait(
        self,
        physical_offset: int,
        timeout: float | None,
        progress: Callable[[int], None] | None,
    ) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.dispatched_offset < physical_offset:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if progress is not None:
                progress(self.dispatched_offset)
            if self._thread is None:
                self.step()
                continue
            with self._moved:
                if self.dispatched_offset < physical_offset:
                    self._moved.wait(0.1 if progress is not None else left)
        if progress is not None:
            progress(min(self.dispatched_offset, physical_offset))
        return True

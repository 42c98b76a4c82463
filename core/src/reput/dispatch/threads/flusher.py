"""`PluginFlusher` flushes log, plugins, progress and checkpoint, in this order.

The order matters: the plugins' files are flushed after the log, and a plugin's progress is written
after its files are on disk up to there. So everything that a crash loses can be derived again.

The log is flushed by a thread of its own, so that no plugin can delay it; and plugins do not wait
for another plugin's long flush.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.running.phase import Phase
from reput.errors import ReputError, StoreClosedError
from reput.files.names import OWN_DIRECTORY
from reput.flags import Flag
from reput.locks import new_lock
from reput.log.progress import FLUSHED, Progress, ProgressFile, fingerprint_of

if TYPE_CHECKING:
    from reput.dispatch.running.calls import Call
    from reput.dispatch.running.phase import Place
    from reput.dispatch.running.runner import Board, PluginRunner
    from reput.files.system.disk import Disk
    from reput.log.recovery.checkpoint import Checkpoint
    from reput.log.writing.commitlog import CommitLog

logger = logging.getLogger(__name__)

__all__ = ["PluginFlusher", "fingerprint_of"]

_PATIENCE = 0.2  # seconds that a round waits for the plugins' flushes


@attrs.frozen
class _Target:
    """What must be on disk of one plugin: all that it had when the flush was requested."""

    plugin: PluginRunner
    place: Place
    number: int
    """How many flushes of any plugin had begun by then."""
    life: int
    """How often the plugin had been opened again by then."""
    is_fresh: bool
    """Whether only a flush that begins later counts, even if an earlier one covers `place`."""


@attrs.frozen
class _Flush:
    """One flush of one plugin: what it covers, and its number."""

    target: _Target
    number: int


class PluginFlusher:
    """Flushes a writable store, on threads of its own and on request."""

    def __init__(
        self,
        log: CommitLog,
        board: Board,
        progress_files: dict[str, ProgressFile],
        checkpoint: Checkpoint,
        checkpoint_path: str,
        disk: Disk,
    ) -> None:
        self._log = log
        self._board = board
        self._calls = board.calls
        self._progress_files = progress_files
        self.checkpoint = checkpoint
        self._checkpoint_path = checkpoint_path
        self._disk = disk
        self._root = os.path.dirname(checkpoint_path)
        own = os.path.join(self._root, OWN_DIRECTORY)
        self._log_flushed = ProgressFile(os.path.join(own, FLUSHED), disk)
        # Held while places are read and the store's own files are written, but never while waiting
        # for a plugin, so that a slow plugin does not hide that others are done. Reentrant, for a
        # signal handler that closes the store.
        self._lock = new_lock()
        self._begun: dict[str, Call] = {}
        self._begun_count = 0
        self._flushed: dict[str, _Flush] = {}
        """The last successful flush of each plugin."""
        self._unsaved: dict[str, tuple[int, OSError]] = {}
        """Number of each plugin's last flush whose progress could not be written, and the error."""
        self._failed: set[str] = set()
        """Plugins whose flush failed, which is not tried again before the plugin is reopened."""
        self._lives: dict[str, int] = {}
        self._vouched: dict[str, int] = {}  # fields of the checkpoint that `reput_flush` returned
        self._last_record = -1
        self._is_over = False
        self._stop = Flag()
        self._threads: list[threading.Thread] = []

    @property
    def keeps_queues(self) -> bool:
        """Whether a plugin keeps queues.

        RocketMQ looks for missing units only after the checkpoint's time of queues, which stays
        unchanged without such a plugin.
        """
        return bool(self._queue_plugins)

    @property
    def _queue_plugins(self) -> list[str]:
        runners = self._board.runners.values()
        return [each.name for each in runners if each.hooks.queue_offsets is not None]

    # ------------------------------------------------------------------ one round

    def flush(self, patience: float | None = None) -> dict[str, str]:
        """Flush everything: log, plugins, progress, checkpoint.

        Everything put and dispatched before this call is on disk when it returns, except for the
        plugins that are returned. A plugin that is being flushed already is flushed again
        afterwards, unless the flush under way covers it.

        Args:
            patience: seconds to wait for plugins; when left out, as long as their flushes advance.
                The next round looks at a longer flush again.

        Returns:
            By plugin, why it was not flushed: it hangs, or takes longer than ``patience``. A plugin
            that is suspended, or fails now, keeps its progress and is not listed.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed.
            OSError: progress or checkpoint cannot be written; the next round tries again.
            StoreClosedError: the store was closed.
        """
        with self._lock:
            self._check_open()
            # The flushes below cover the places that are read here; more may come meanwhile.
            self._last_record = last_record = self._log.last_record_offset
            with self._board.lock:
                deriving = [each for each in self._board.runners.values() if _is_flushable(each)]
                targets = {each.name: self._target_of(each) for each in deriving}
            self._log.flusher.flush()
            self._log_flushed.save_end_of(self._log, last_record)
        missed = self._bring(targets, patience)
        with self._lock:
            self._check_open()
            timestamp = max(self._log.store_timestamp_at(self._last_record), 0)
            self._save_checkpoint(timestamp, self._kept_timestamp())
        return missed

    def flush_plugin(self, each: PluginRunner, *, again: bool = False) -> bool:
        """Flush one plugin that is in no call, whatever its state, and record its progress.

        Args:
            each: the plugin.
            again: flush even if an earlier flush covers its place, as it has changed files since.

        Returns:
            Whether the flush returned, and did not fail.
        """
        with self._lock:
            self._check_open()
            target = self._target_of(each, again=again)
            self._log.flusher.flush()
        missed = self._bring({each.name: target}, None, in_any_state=True)
        with self._lock:
            return not missed and self._is_met(target)

    def is_flushed(self, each: PluginRunner) -> bool:
        """Whether a plugin's files are on disk up to its place."""
        with self._lock:
            if each.name in self._begun:
                return False
            done = self._flushed.get(each.name)
            return each.hooks.dispatch is None or (
                done is not None and done.target.place.position == each.position
            )

    def forget(self, name: str) -> None:
        """Forget the flushes of a plugin that was removed, or is opened again."""
        with self._lock:
            self._begun.pop(name, None)
            self._flushed.pop(name, None)
            self._unsaved.pop(name, None)
            self._failed.discard(name)
            self._lives[name] = self._lives.get(name, 0) + 1

    def _check_open(self) -> None:
        if self._is_over:
            raise StoreClosedError(self._root)

    def _target_of(self, each: PluginRunner, *, again: bool = False) -> _Target:
        return _Target(
            each,
            each.place,
            self._begun_count,
            self._lives.get(each.name, 0),
            # A plugin with `reput_work` may have changes to save without a new message.
            again or each.hooks.work is not None,
        )

    # ------------------------------------------------------------------ plugins

    def _bring(
        self, targets: dict[str, _Target], patience: float | None, *, in_any_state: bool = False
    ) -> dict[str, str]:
        """Flush plugins until each has met its target; return why a plugin has not."""
        asked: list[Call] = []
        try:
            return self._bring_all(targets, patience, asked, in_any_state)
        finally:
            for call in asked:
                self._calls.leave(call)

    def _bring_all(
        self,
        targets: dict[str, _Target],
        patience: float | None,
        asked: list[Call],
        in_any_state: bool,
    ) -> dict[str, str]:
        me = threading.get_ident()
        missed: dict[str, str] = {}
        failures: list[OSError] = []
        deadline = None if patience is None else time.monotonic() + patience
        left = dict(targets)
        while True:
            with self._lock:
                self._check_open()
                self._settle()
                waiting: dict[str, Call] = {}
                is_settled = False
                for name, target in list(left.items()):
                    failure = self._why_not_saved(name, target)
                    if failure is not None:
                        failures.append(failure)
                    elif not self._is_met(target) and self._is_alive(target, missed, in_any_state):
                        if name not in self._begun:
                            self._enter(target, asked)
                        call = self._begun.get(name)
                        if call is None:
                            is_settled = True  # a signal handler's flush has just done it
                        else:
                            waiting[name] = call
                        continue
                    del left[name]
            if is_settled:
                continue
            for name, call in waiting.items():
                # Calls entered above, or by the flush that this one, in a signal handler, has
                # interrupted. Not under the lock: without threads the plugin runs inside `make`.
                if call.asker == me and not (call.is_given or call.thread or call.is_done):
                    self._calls.make(call, targets[name].plugin.hooks.flush or _nothing)
            for name, call in waiting.items():
                if call.is_made_here:
                    missed[name] = f"this very thread is inside of {call.hook}"
                    del left[name]
                elif targets[name].plugin.is_stuck(call):
                    missed[name] = self._hangs(call)
                    del left[name]
            waiting = {name: call for name, call in waiting.items() if name in left}
            if not waiting:
                break
            pauses = [
                max(self._board.stall_seconds - call.idle_seconds, 0) for call in waiting.values()
            ]
            if deadline is not None:
                pauses.append(deadline - time.monotonic())
                if pauses[-1] <= 0:
                    missed.update(dict.fromkeys(waiting, "it is being flushed"))
                    break
            self._calls.wait_any(waiting.values(), min(pauses))
        if failures:
            raise failures[0]
        return missed

    def _is_met(self, target: _Target) -> bool:
        done = self._flushed.get(target.plugin.name)
        if done is None:
            return False
        if target.is_fresh:
            return done.number > target.number
        return done.target.place.position >= target.place.position

    def _is_alive(self, target: _Target, missed: dict[str, str], in_any_state: bool) -> bool:
        """Whether a flush can still meet the target; if the plugin hangs, add it to ``missed``."""
        each = target.plugin
        if self._lives.get(each.name, 0) != target.life or each.name in self._failed:
            return False  # removed or reopened: what it had then is derived again
        if in_any_state:
            return True
        if each.phase is Phase.STALLED:
            call = self._begun.get(each.name)
            missed[each.name] = each.last_error or "it hangs" if call is None else self._hangs(call)
            return False
        return each.is_active

    def _hangs(self, call: Call) -> str:
        return (
            f"{call.hook} has not returned, and has brought no file to disk for "
            f"{call.idle_seconds:.1f} s"
        )

    def _enter(self, target: _Target, asked: list[Call]) -> None:
        name = target.plugin.name
        call = target.plugin.ready("reput_flush")
        call.asker = threading.get_ident()
        call.facts = _Flush(target, self._begun_count + 1)
        asked.append(call)  # from here on `leave` is called for it in any case
        if not self._calls.enter(call):
            raise StoreClosedError(self._root)
        self._begun_count += 1
        self._begun[name] = call

    def _settle(self) -> None:
        """Record the results of flushes that have returned by now."""
        for name, call in list(self._begun.items()):
            if not call.is_done:
                continue
            flush: _Flush = call.facts
            each = flush.target.plugin
            if call.error is not None:
                self._failed.add(name)  # first: after Ctrl-C here it must not count as a success
            self._begun.pop(name, None)
            if not call.thread:
                continue  # given up before it was made
            each.came_back(call)
            if call.error is not None:
                self._flush_failed(each, call.error)
                continue
            self._vouched.update(_times(call.result))
            try:
                self._save_progress(flush)
            except OSError as error:
                self._unsaved[name] = flush.number, error

    def _save_progress(self, flush: _Flush) -> None:
        target, name = flush.target, flush.target.plugin.name
        before = self._flushed.get(name)
        is_news = before is None or before.target.place.position != target.place.position
        if name in self._progress_files and is_news:
            record = target.place.record_offset
            fingerprint = fingerprint_of(self._log, record) if record >= 0 else 0
            place = Progress(target.place.position, record, fingerprint)
            self._progress_files[name].save(place)
        self._flushed[name] = flush
        self._unsaved.pop(name, None)

    def _why_not_saved(self, name: str, target: _Target) -> OSError | None:
        number, error = self._unsaved.get(name, (0, None))
        return error if number > target.number else None

    def _flush_failed(self, each: PluginRunner, error: BaseException) -> None:
        # Not retried: the system may have dropped the pages that it could not write, and a second
        # flush would report success without them. The files count up to the recorded progress, and
        # are written again from there.
        file = self._progress_files.get(each.name)
        cut_to = None
        if file is not None:  # else the plugin dispatches nothing, and has no place to return to
            progress = file.load()
            cut_to = progress.physical_offset if progress is not None else 0
        each.flush_failed(error, cut_to)

    def _kept_timestamp(self) -> int:
        """Return the store time up to which all messages are in flushed queues; 0 if not known."""
        times = []
        for name in self._queue_plugins:
            done = self._flushed.get(name)
            if done is None:
                return 0
            times.append(done.target.place.store_timestamp)
        return min(times, default=0)

    def _save_checkpoint(self, log_timestamp: int, queues_timestamp: int) -> None:
        changed = attrs.evolve(
            self.checkpoint,
            log_timestamp=log_timestamp or self.checkpoint.log_timestamp,
            queues_timestamp=queues_timestamp or self.checkpoint.queues_timestamp,
            **self._vouched,
        )
        if changed != self.checkpoint:
            changed.save(self._checkpoint_path, self._disk)
            self.checkpoint = changed

    # ------------------------------------------------------------------ running

    def start(
        self, log_interval_ms: int, plugin_interval_ms: int, each_round: Callable[[], None]
    ) -> None:
        """Start two threads that flush periodically.

        Args:
            log_interval_ms: interval for the log.
            plugin_interval_ms: interval for everything else.
            each_round: called after each of the latter rounds.
        """
        log_seconds, plugin_seconds = log_interval_ms / 1_000, plugin_interval_ms / 1_000
        for name, run in [
            ("reput-flush", lambda: self._run_log(log_seconds)),
            ("reput-flush-plugins", lambda: self._run_plugins(plugin_seconds, each_round)),
        ]:
            thread = threading.Thread(target=run, name=name)
            thread.daemon = True
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the threads, without flushing."""
        self._stop.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._threads = []

    def end(self) -> None:
        """Write nothing from now on: later flushes are not recorded."""
        with self._lock:
            self._is_over = True

    def _run_log(self, interval: float) -> None:
        flusher = self._log.flusher
        while not self._stop.wait(interval):
            if flusher.flushed_offset < self._log.max_physical_offset:
                try:
                    flusher.flush()
                except ReputError as error:
                    # The log refuses puts from now on, with the reason; nothing is left to flush.
                    logger.error("flush thread stopped error=%s", error)
                    return

    def _run_plugins(self, interval: float, each_round: Callable[[], None]) -> None:
        while not self._stop.wait(interval):
            try:
                self.flush(_PATIENCE)
            except ReputError:
                pass  # the log's own thread has logged it; requests are followed all the same
            except OSError as error:
                # Most often a full disk; the next round tries again. Progress that is not written
                # is too low, which costs only time.
                logger.warning("progress not written error=%s", error)
            except Exception:
                # The thread must go on, as nothing else does its work.
                logger.exception("plugins not flushed, tried again")
            try:
                each_round()
            except Exception:
                logger.exception("requests not heard, tried again")


def _is_flushable(each: PluginRunner) -> bool:
    has_something = each.hooks.dispatch is not None or each.hooks.work is not None
    return has_something and (each.is_active or each.phase is Phase.STALLED)


def _times(answer: Any) -> dict[str, int]:
    """Return the checkpoint's fields in the answer of `reput_flush`; none if it has no such."""
    value = answer.get("index_timestamp") if isinstance(answer, Mapping) else None
    return {"index_timestamp": value} if isinstance(value, int) and value > 0 else {}


def _nothing() -> None:
    """Do nothing: the flush of a plugin without `reput_flush`."""

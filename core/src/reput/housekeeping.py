"""The flush threads: bring log, plugins, progress and checkpoint to disk, in this order.

The order is the promise: a plugin's progress is written when its files are on disk up to there, and
those are flushed when the log is. Whatever is lost in a crash can be derived again.

The log has a thread of its own, so that no plugin can keep it from the disk; and a plugin whose
flush takes long is not waited for by the others.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatcher import RETRYING, RUNNING, STALLED, Dispatcher
from reput.errors import ReputError
from reput.flags import Flag
from reput.manifest import OWN_DIRECTORY
from reput.progress import FLUSHED, Progress, ProgressFile, fingerprint_of

if TYPE_CHECKING:
    from reput.checkpoint import Checkpoint
    from reput.commitlog import CommitLog
    from reput.disk import Disk
    from reput.plugincalls import Call, PluginCalls
    from reput.reputloop import ReputLoop

logger = logging.getLogger(__name__)

__all__ = ["Housekeeping", "fingerprint_of"]

_PATIENCE = 0.2  # seconds that the others wait for one plugin's flush


@attrs.frozen
class _Reached:
    """Where a plugin stood when its flush began; what the flush covers."""

    position: int
    record_offset: int
    store_timestamp: int


class Housekeeping:
    """Flushes a writable store, on threads of its own and when asked."""

    def __init__(
        self,
        log: CommitLog,
        loop: ReputLoop,
        calls: PluginCalls,
        progress_files: dict[str, ProgressFile],
        checkpoint: Checkpoint,
        checkpoint_path: str,
        disk: Disk,
    ) -> None:
        self._log = log
        self._loop = loop
        self._calls = calls
        self._flush_hooks: Mapping[str, Callable[..., Any]] = {}
        self._progress_files = progress_files
        self.checkpoint = checkpoint
        self._checkpoint_path = checkpoint_path
        self._disk = disk
        own = os.path.join(os.path.dirname(checkpoint_path), OWN_DIRECTORY)
        self._log_flushed = ProgressFile(os.path.join(own, FLUSHED), disk)
        self._keepers: frozenset[str] = frozenset()
        self._workers: frozenset[str] = frozenset()
        self.each_round: Callable[[], None] | None = None
        """Called on the thread that flushes plugins, now and then."""
        self._lock = threading.Lock()
        self._begun: dict[str, Call] = {}
        self._flushed: dict[str, _Reached] = {}
        self._vouched: dict[str, int] = {}  # fields of the checkpoint, as plugins' flushes told
        self._stop = Flag()
        self._threads: list[threading.Thread] = []

    def use(
        self,
        flush_hooks: list[tuple[str, Callable[..., Any]]],
        keepers: Collection[str],
        workers: Collection[str] = (),
    ) -> None:
        """Flush these plugins from now on.

        Args:
            flush_hooks: by name.
            keepers: those that keep queues.
            workers: those that work by the clock, and so may have something to save though they
                were given no message.
        """
        self._flush_hooks = dict(flush_hooks)
        self._keepers = frozenset(keepers)
        self._workers = frozenset(workers)

    @property
    def keeps_queues(self) -> bool:
        """Whether a plugin keeps queues.

        RocketMQ looks for missing ones only behind the time that the checkpoint states for them;
        without a plugin that time stands still.
        """
        return bool(self._keepers)

    # ------------------------------------------------------------------ one round

    def flush(self, patience: float | None = None) -> None:
        """Flush everything: log, plugins, progress, checkpoint.

        Args:
            patience: seconds to wait for a plugin's flush; the time after which it counts as
                stalled when left out. One that takes longer is looked at again the next time.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed.
            OSError: progress or checkpoint cannot be written; the next round tries again.
        """
        with self._lock:
            # What is sampled here is what the flushes below cover; more may come meanwhile.
            last_record = self._log.last_record_offset
            with self._loop.lock:
                sampled = {
                    each.name: _Reached(
                        each.position, each.last_record_offset, each.store_timestamp
                    )
                    for each in self._loop.dispatchers
                    if (each.dispatch is not None or each.name in self._workers)
                    and each.state in (RUNNING, RETRYING)
                }
            self._log.flusher.flush()
            self._log_flushed.save_end_of(self._log, last_record)
            for name, reached in sampled.items():
                self._begin_flush(name, reached)
            self._finish_flushes(self._stall_seconds if patience is None else patience)
            timestamp = max(self._log.store_timestamp_at(last_record), 0)
            self._save_checkpoint(timestamp, self._kept_timestamp(timestamp))

    def flush_plugin(self, each: Dispatcher, *, again: bool = False) -> bool:
        """Flush one plugin that is in no call, whatever its state, and record its progress.

        Args:
            each: the plugin.
            again: also when it was flushed as far as it came: it has changed files since.

        Returns:
            Whether the flush returned, and did not fail.
        """
        with self._lock:
            if again:
                self._flushed.pop(each.name, None)
            reached = _Reached(each.position, each.last_record_offset, each.store_timestamp)
            self._log.flusher.flush()
            self._begin_flush(each.name, reached)
            self._finish_flushes(self._stall_seconds)
            return each.name not in self._begun and self._loop.failure_of(each.name) is None

    def is_flushed(self, each: Dispatcher) -> bool:
        """Whether the files of a plugin are on disk as far as it came."""
        reached = self._flushed.get(each.name)
        return reached is not None and reached.position == each.position

    def forget(self, name: str) -> None:
        """Remember nothing of a plugin: it was taken away, or is opened anew."""
        with self._lock:
            self._begun.pop(name, None)
            self._flushed.pop(name, None)

    @property
    def _stall_seconds(self) -> float:
        return self._loop.config.stall_ms / 1_000

    def _begin_flush(self, name: str, reached: _Reached) -> None:
        if name in self._begun or (self._is_saved(name, reached) and name not in self._workers):
            return
        hook = self._flush_hooks.get(name, _nothing)
        call = self._calls.start(name, "reput_flush", hook)
        call.facts = reached
        self._begun[name] = call

    def _finish_flushes(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        failure: OSError | None = None
        for name, call in list(self._begun.items()):
            each = self._loop.dispatcher(name)
            if not call.wait(max(deadline - time.monotonic(), 0)):
                self._notice_stall(each, call)
                continue
            del self._begun[name]
            self._loop.returned(each)
            if call.error is not None:
                self._flush_failed(each, call.error)
                continue
            self._vouched.update(_times(call.result))
            if name not in self._progress_files or self._is_saved(name, call.facts):
                continue  # it derives nothing, or nothing since
            try:
                self._save_progress(name, call.facts)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def _is_saved(self, name: str, reached: _Reached) -> bool:
        before = self._flushed.get(name)
        return before is not None and before.position == reached.position

    def _save_progress(self, name: str, reached: _Reached) -> None:
        record = reached.record_offset
        fingerprint = fingerprint_of(self._log, record) if record >= 0 else 0
        self._progress_files[name].save(Progress(reached.position, record, fingerprint))
        self._flushed[name] = reached

    def _flush_failed(self, each: Dispatcher, error: BaseException) -> None:
        # Not tried again: the system may have dropped the pages that it could not write, and a
        # second flush would report success without them. The files count as far as the progress
        # that was recorded, and are written anew from there.
        progress = self._progress_files[each.name].load()
        with self._loop.lock:
            each.cut_to = progress.physical_offset if progress is not None else 0
        self._loop.failed_outside(each, error)

    def _notice_stall(self, each: Dispatcher, call: Call) -> None:
        seconds = time.monotonic() - call.started
        if seconds < self._stall_seconds or each.state not in (RUNNING, RETRYING):
            return
        with self._loop.lock:
            each.state = STALLED
            each.last_error = f"{call.hook} has not returned after {self._stall_seconds:g} s"
        logger.error("plugin stalled plugin=%s hook=%s", each.name, call.hook)
        self._loop.changed.set()
        self._loop.notify_moved()

    def _kept_timestamp(self, log_timestamp: int) -> int:
        """Store time below which all messages are in the queues, as far as is known; else 0."""
        times = []
        for name in self._keepers:
            reached = self._flushed.get(name)
            if reached is None:
                return 0
            times.append(reached.store_timestamp)
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

    def start(self, log_interval_ms: int, plugin_interval_ms: int) -> None:
        """Flush the log every ``log_interval_ms`` and all else every ``plugin_interval_ms``."""
        for name, run, interval_ms in [
            ("reput-flush", self._run_log, log_interval_ms),
            ("reput-flush-plugins", self._run_plugins, plugin_interval_ms),
        ]:
            thread = threading.Thread(target=run, args=(interval_ms / 1_000,), name=name)
            thread.daemon = True
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the threads; flushes nothing."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _run_log(self, interval: float) -> None:
        flusher = self._log.flusher
        while not self._stop.wait(interval):
            if flusher.flushed_offset < self._log.max_physical_offset:
                try:
                    flusher.flush()
                except ReputError as error:
                    # The log refuses puts from now on and says why; nothing is left to flush.
                    logger.error("flush thread stopped error=%s", error)
                    return

    def _run_plugins(self, interval: float) -> None:
        while not self._stop.wait(interval):
            try:
                self.flush(_PATIENCE)
            except ReputError:
                pass  # the log's own thread has said so; requests are heard all the same
            except OSError as error:
                # Progress that is not written says too little, never too much. A full disk, most
                # often: the next round tries again.
                logger.warning("progress not written error=%s", error)
            if self.each_round is not None:
                self.each_round()


def _times(answer: Any) -> dict[str, int]:
    """What a plugin's flush says for the checkpoint; nothing where it is no such thing."""
    value = answer.get("index_timestamp") if isinstance(answer, Mapping) else None
    return {"index_timestamp": value} if isinstance(value, int) and value > 0 else {}


def _nothing() -> None:
    """The flush of a plugin that has nothing to flush."""

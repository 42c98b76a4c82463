"""The flush thread: brings log, plugins, progress and checkpoint to disk, in this order.

The order is the promise: a plugin's progress is written when its files are on disk up to there, and
those are flushed when the log is. Whatever is lost in a crash can be derived again.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import ReputError
from reput.layout import SIZE_AND_MAGIC
from reput.progress import Progress, ProgressFile

if TYPE_CHECKING:
    from reput.checkpoint import Checkpoint
    from reput.commitlog import CommitLog
    from reput.disk import Disk
    from reput.reputloop import Dispatcher, ReputLoop

logger = logging.getLogger(__name__)

__all__ = ["Housekeeping", "fingerprint_of"]


def fingerprint_of(log: CommitLog, record_offset: int) -> int:
    """CRC-32 of the record at that offset; 0 when there is none."""
    head = log.read(record_offset, SIZE_AND_MAGIC.size)
    if record_offset < 0 or len(head) < SIZE_AND_MAGIC.size:
        return 0
    size, _ = SIZE_AND_MAGIC.unpack(head)
    return zlib.crc32(log.read(record_offset, size))


class Housekeeping:
    """Flushes a writable store, on a thread of its own and when asked."""

    def __init__(
        self,
        log: CommitLog,
        loop: ReputLoop,
        flush_hooks: list[tuple[str, Callable[..., Any]]],
        progress_files: dict[str, ProgressFile],
        checkpoint: Checkpoint,
        checkpoint_path: str,
        disk: Disk,
        *,
        keeps_queues: bool,
    ) -> None:
        self._log = log
        self._loop = loop
        self._flush_hooks = dict(flush_hooks)
        self._progress_files = progress_files
        self.checkpoint = checkpoint
        self._checkpoint_path = checkpoint_path
        self._disk = disk
        self.keeps_queues = keeps_queues
        """Whether a plugin keeps queues. RocketMQ looks for missing ones only behind the time that
        the checkpoint states for them; without a plugin that time stands still."""
        self._lock = threading.Lock()
        self._flushed_positions: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def flush(self) -> None:
        """Flush everything: log, plugins, progress, checkpoint.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed.
        """
        with self._lock:
            # What is sampled here is what the flushes below cover; more may come meanwhile.
            last_record = self._log.last_record_offset
            sampled = [
                (each, each.position, each.last_record_offset, each.store_timestamp)
                for each in self._loop.dispatchers
            ]
            self._log.flusher.flush()
            times = []
            for each, position, record_offset, store_timestamp in sampled:
                if self._flush_plugin(each, position, record_offset):
                    times.append(store_timestamp)
            timestamp = max(self._log.store_timestamp_at(last_record), 0)
            kept = min(times, default=timestamp) if self.keeps_queues else 0
            self._save_checkpoint(timestamp, kept)

    def _flush_plugin(self, each: Dispatcher, position: int, record_offset: int) -> bool:
        if self._flushed_positions.get(each.name) == position:
            return True
        if self._loop.failure_of(each.name) is not None:
            return False
        hook = self._flush_hooks.get(each.name)
        try:
            if hook is not None:
                hook()
        except BaseException as error:
            self._loop.suspend(each.name, error)
            return False
        fingerprint = fingerprint_of(self._log, record_offset) if record_offset >= 0 else 0
        self._progress_files[each.name].save(Progress(position, record_offset, fingerprint))
        self._flushed_positions[each.name] = position
        return True

    def _save_checkpoint(self, log_timestamp: int, queues_timestamp: int) -> None:
        changed = attrs.evolve(
            self.checkpoint,
            log_timestamp=log_timestamp or self.checkpoint.log_timestamp,
            queues_timestamp=queues_timestamp or self.checkpoint.queues_timestamp,
        )
        if changed != self.checkpoint:
            changed.save(self._checkpoint_path, self._disk)
            self.checkpoint = changed

    # ------------------------------------------------------------------ running

    def start(self, log_interval_ms: int, plugin_interval_ms: int) -> None:
        """Flush the log every ``log_interval_ms`` and all else every ``plugin_interval_ms``."""
        self._thread = threading.Thread(
            target=self._run,
            args=(log_interval_ms / 1000, plugin_interval_ms / 1000),
            name="reput-flush",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; flushes nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, log_interval: float, plugin_interval: float) -> None:
        waited = 0.0
        while not self._stop.wait(log_interval):
            waited += log_interval
            try:
                if waited >= plugin_interval:
                    waited = 0.0
                    self.flush()
                elif self._log.flusher.flushed_offset < self._log.max_physical_offset:
                    self._log.flusher.flush()
            except (ReputError, OSError) as error:
                # The log refuses puts from now on and says why; there is nothing left to flush to.
                logger.error("flush thread stopped error=%s", error)
                return

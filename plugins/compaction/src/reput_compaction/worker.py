"""`CompactionWorker`: decides which queue is compacted when, and drives the current run."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput_compaction.job.staging import sweep
from reput_compaction.run.compaction import Compaction

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_compaction.filepairs.filepair import Pair, PairFiles
    from reput_compaction.job.compactionjob import CompactionJob
    from reput_compaction.queue.compactedqueue import CompactedQueue
    from reput_compaction.run.checkpoint import Checkpoint
    from reput_compaction.run.compaction import Compacted
    from reput_compaction.run.keeprules import KeepRules
    from reput_tools.offline import Engine

logger = logging.getLogger(__name__)

_SLICE_SECONDS = 0.1
_PAUSE_MS = 1_000
_FLUSH_SECONDS = 30.0


@attrs.frozen(kw_only=True)
class Timing:
    """When queues are compacted."""

    interval_ms: int
    roll_ms: int
    """Age of the oldest message at which a file is closed so that it can be compacted; 0: never."""


@attrs.define(eq=False)
class CompactionWorker:
    """Compacts the queues of one store."""

    context: StoreContext
    files: PairFiles
    checkpoint: Checkpoint
    queues: Mapping[tuple[str, int], CompactedQueue]
    rules: KeepRules
    timing: Timing
    failures: dict[tuple[str, int], str] = attrs.field(factory=dict)
    """Why a queue could not be compacted, until a run of it succeeds."""
    run_count: int = 0
    _next_round: int | None = None
    _waiting: list[CompactedQueue] = attrs.field(factory=list)
    _run: Compaction | None = None
    _steps: Generator[int, None, None] | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    """Held for each step: by the work thread, or by a caller of `compact`."""

    # ------------------------------------------------------------------ by the clock

    def work(self, now: int) -> int:
        """See `reput.plugin.hookspecs.reput_work`."""
        if not self._lock.acquire(blocking=False):
            return now + _PAUSE_MS
        try:
            return self._work(now)
        finally:
            self._lock.release()

    def _work(self, now: int) -> int:
        interval = self.timing.interval_ms
        if self._next_round is None or self._next_round > now + interval:
            self._next_round = now + interval  # the first round, or the clock was set back
        if now >= self._next_round:
            self._next_round = now + interval
            self._waiting = list(self.queues.values())
        until = time.monotonic() + _SLICE_SECONDS
        while self._run is not None or self._waiting:
            if self._run is None:
                queue = self._waiting.pop()
                self._close_if_old(queue, now)
                self._begin(queue, now)
            else:
                self._step()
            if time.monotonic() >= until:
                return now
        return self._next_round

    def _close_if_old(self, queue: CompactedQueue, now: int) -> None:
        if not self.timing.roll_ms or not queue.pairs:
            return
        last = queue.pairs[-1]
        is_old = last.last > queue.checkpoint and now - last.timestamp >= self.timing.roll_ms
        if is_old or self._is_due(queue, now):
            queue.close_last()

    def _is_due(self, queue: CompactedQueue, now: int) -> bool:
        """Return whether tombstones that an earlier run kept may go."""
        tombstone = queue.tombstone_timestamp
        return tombstone is not None and tombstone + self.rules.retention_ms <= now

    # ------------------------------------------------------------------ at once

    def compact(
        self,
        queues: list[CompactedQueue],
        progress: Callable[[int, int], None] = lambda done, total: None,
        engine: Engine | None = None,
        split_size: int | None = None,
    ) -> list[Compacted]:
        """Compact queues now, including the files that are being written.

        Args:
            queues: the queues to compact.
            progress: called now and then with bytes read, and bytes to be read in all.
            engine: runs the tasks of a job; None compacts in this process, queue by queue.
            split_size: approximate bytes that a task reads; the default is that of a rebuild.

        Raises:
            CorruptFileError: the files of a queue are damaged; the queues before it are compacted,
                but with an engine none is.
            TaskFailedError: a task of a job failed for another reason; no queue is compacted.
        """
        now = self.context.clock()
        with self._lock:
            self._end_run()
            for queue in queues:
                queue.close_last()
            end = max((queue.end_offset for queue in queues), default=0)
            self.context.store.wait_flushed(end, _FLUSH_SECONDS)
            if engine is None:
                return self._compact_here(queues, now, progress)
            from reput_compaction.job.compactionjob import (
                CompactionJob,  # most stores never need it
            )

            runs = [run for queue in queues if (run := self._prepare(queue, now)) is not None]
            job = CompactionJob(self.context, runs, engine, split_size, progress)
            return self._compact_by_tasks(runs, job)

    def _compact_here(
        self, queues: list[CompactedQueue], now: int, progress: Callable[[int, int], None]
    ) -> list[Compacted]:
        results, done = [], 0
        total = sum(2 * queue.size for queue in queues)
        for queue in queues:
            run = self._prepare(queue, now)
            if run is None:
                continue
            self._run, self._steps = run, run.steps()
            while run is self._run:
                done += self._step(strict=True)
                progress(min(done, total), total)
            if run.result is not None:
                results.append(run.result)
        return results

    def _compact_by_tasks(self, runs: list[Compaction], job: CompactionJob) -> list[Compacted]:
        if not runs:
            return []
        try:
            for run, made in zip(runs, job.make(), strict=True):
                self._run, self._steps = run, run.steps_with(made)
                while run is self._run:
                    self._step(strict=True)
        finally:
            sweep(self.context)
        return [run.result for run in runs if run.result is not None]

    # ------------------------------------------------------------------ one run

    def _end_run(self) -> None:
        """Complete the current run, if there is one."""
        while self._run is not None:
            self._step()

    def _begin(self, queue: CompactedQueue, now: int) -> Compaction | None:
        """Begin a run over a queue; None when there is nothing to do."""
        self._run = self._prepare(queue, now)
        self._steps = None if self._run is None else self._run.steps()
        return self._run

    def _prepare(self, queue: CompactedQueue, now: int) -> Compaction | None:
        old = self._ready(queue)
        if not old:
            return None
        if old[-1].last <= queue.checkpoint and not self._is_due(queue, now):
            return None
        return Compaction(queue, self.files, self.checkpoint, self.rules, now, old)

    def _ready(self, queue: CompactedQueue) -> tuple[Pair, ...]:
        """Return the pairs that can be compacted: closed pairs that the log has on disk."""
        flushed = self.context.store.flushed_offset
        return tuple(
            itertools.takewhile(
                lambda pair: pair.is_closed and pair.end_offset <= flushed, queue.pairs
            )
        )

    def _step(self, *, strict: bool = False) -> int:
        """Do the next step of the run, and return the bytes that were read."""
        run, steps = self._run, self._steps
        assert run is not None
        queue = run.queue
        key = queue.topic, queue.queue_id
        try:
            if steps is None:
                run.finish()  # the disk failed while files were being renamed
                read = None
            else:
                read = next(steps, None)
        except CorruptFileError as error:
            self._run = self._steps = None
            self.failures[key] = str(error)
            logger.warning("not compacted topic=%s queue=%d error=%s", *key, error)
            if strict:
                raise
            return 0
        except BaseException:
            self._steps = None
            if not run.is_decided:
                self._run = None
                self._waiting.append(queue)
            raise
        if read is not None:
            return read
        self._run = self._steps = None
        self.run_count += 1
        self.failures.pop(key, None)
        result = run.result
        if result is not None:
            logger.info(
                "compacted topic=%s queue=%d messages=%d kept=%d size=%d size_kept=%d",
                *key,
                result.messages_before,
                result.messages_after,
                result.size_before,
                result.size_after,
            )
        return 0

    def close(self) -> None:
        """Give up the current run."""
        with self._lock:
            if self._steps is not None:
                self._steps.close()  # now, before another process can have the store open
            self._run = self._steps = None
            self._waiting = []

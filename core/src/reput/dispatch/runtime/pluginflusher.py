"""`PluginFlusher` flushes log, plugins, progress and checkpoint, in this order.

The order matters: the plugins' files are flushed after the log, and a plugin's progress is written
after its files are on disk up to there. So everything that a crash loses can be derived again.

The log is flushed by a thread of its own (`GroupCommit.start`), so that no plugin can delay it; and
plugins do not wait for another plugin's long flush.
"""

from __future__ import annotations

import functools
import logging
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.runtime.pluginstate import Flushes, Phase
from reput.errors import ReputError, ServiceNotAvailableError, StoreClosedError
from reput.files.system.flushing import is_disk_full
from reput.log.progress import Progress, ProgressEntry, fingerprint_of
from reput.signalsafe import PeriodicThread, is_held_here, new_lock

if TYPE_CHECKING:
    from reput.dispatch.runtime.hookcalls import Call
    from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext
    from reput.dispatch.runtime.pluginstate import PluginPosition
    from reput.log.recovery.logstate import LogStateFile
    from reput.log.writer.commitlog import CommitLog

logger = logging.getLogger(__name__)

_PLACE = operator.attrgetter("place")
_PATIENCE = 0.2  # seconds that a round waits for the plugins' flushes


class PluginFlusher:
    """Flushes a writable store, on a thread of its own and on request."""

    def __init__(
        self,
        log: CommitLog,
        board: RunnerContext,
        progress_files: dict[str, ProgressEntry],
        log_note: LogStateFile,
    ) -> None:
        self._log = log
        self._board = board
        self._progress_files = progress_files
        self.log_note = log_note
        """How far the log is on disk, and the checkpoint."""
        # Held while places are read and the store's own files are written, but never while waiting
        # for a plugin, so that a slow plugin does not hide that others are done. Reentrant, for a
        # signal handler that closes the store.
        self.lock = new_lock()
        self._changed: dict[str, bytes] = {}
        """Entries that are not in the state file yet, though what they cover is on disk."""
        self._index_timestamp = 0  # for the checkpoint, as an index's `reput_flush` returned it
        self._is_over = False
        self._rounds: PeriodicThread | None = None

    # ------------------------------------------------------------------ one round

    def flush(self, patience: float | None = None, *, is_last: bool = False) -> dict[str, str]:
        """Flush everything: log, plugins, progress, checkpoint.

        Everything put and dispatched before this call is on disk when it returns, except for the
        plugins that are returned. A plugin that is being flushed already is flushed again
        afterwards, unless the flush under way covers it.

        Args:
            patience: seconds to wait for plugins; when left out, as long as their flushes advance.
                The next round looks at a longer flush again.
            is_last: whether `close` follows, which writes the progress.

        Returns:
            By plugin, why it was not flushed: it hangs, takes longer than ``patience``, or found
            the disk full. A plugin that is suspended, or fails now, keeps its progress and is not
            listed.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed; or see `called_inside`.
            OSError: progress or checkpoint cannot be written; the next round tries again.
            StoreClosedError: the store was closed.
        """
        board = self._board
        if board.calls.threads and (is_held_here(self.lock) or is_held_here(board.lock)):
            raise called_inside("flush")
        with self.lock:
            if self._is_over:
                raise self._closed()
            # The flushes below cover the places that are read here; more may come meanwhile.
            last_record = self._log.last_record_offset
            with self._board.lock:
                runners = list(self._board.runners.values())
                places = list(map(_PLACE, runners))
            self._log.flusher.flush()
            self._changed |= self.log_note.flushed(self._log, last_record)
        missed, requested = {}, []
        for runner, place in zip(runners, places, strict=True):
            if runner.phase is Phase.STALLED:
                missed[runner.name] = runner.stalled_text
            else:
                with self.lock:  # a thread that stops the plugin takes it before the closing
                    call = self._request(runner, place) if runner.is_active else None
                if call is not None:
                    requested.append((runner, call))
        missed |= self._wait(requested, patience)
        with self.lock:
            if self._is_over:
                raise self._closed()
            if not is_last:
                self._save_changed()
            self._save_checkpoint()
        return missed

    def close(self, others: Mapping[str, bytes]) -> None:
        """Write all progress after the last flush, with other entries, and that the log is closed.

        Raises:
            OSError: it cannot be written; the next opening recovers as after a crash.
        """
        with self.lock:
            if self._is_over:
                raise self._closed()
            self.log_note.close(
                self._log, self._log.last_record_offset, {**self._changed, **others}
            )
            self._changed = {}

    def flush_plugin(self, runner: PluginRunner, *, again: bool = False) -> bool:
        """Flush one plugin that is in no call, whatever its state, and record its progress.

        Args:
            runner: the plugin.
            again: flush even if an earlier flush covers its place, as it has changed files since.

        Returns:
            Whether the flush returned, and did not fail.
        """
        with self.lock:
            if self._is_over:
                raise self._closed()
            place = runner.place
            self._log.flusher.flush()
        call = self._request(runner, place, again=again)
        if call is not None and self._wait([(runner, call)], None):
            return False
        with self.lock:
            self._save_changed()
            return not (runner.flushes.has_failed or (call is not None and call.error))

    def is_flushed(self, runner: PluginRunner) -> bool:
        """Whether a plugin's files are on disk up to its place."""
        with self.lock:
            flushes = runner.flushes
            is_derived = runner.hooks.dispatch is None or flushes.covers(runner.place)
            return flushes.inside is None and is_derived

    def forget(self, runner: PluginRunner) -> None:
        """Forget the flushes of a plugin that was removed, or is opened again."""
        with self.lock:
            runner.flushes = Flushes()
            self._changed.pop(runner.name, None)

    def _closed(self) -> StoreClosedError:
        return StoreClosedError(self.log_note.root)

    # ------------------------------------------------------------------ plugins

    def _request(
        self, runner: PluginRunner, place: PluginPosition, *, again: bool = False
    ) -> Call | None:
        """Request a flush that covers ``place``; return None if no call is needed."""
        # Such a plugin may have changes to save without a new message.
        again = again or runner.hooks.work is not None or runner.hooks.dispatch is None
        with self.lock:
            flushes = runner.flushes
            if flushes.has_failed:  # it is derived again when the plugin is opened again
                return None
            if flushes.covers(place) and not again:
                return None
            if runner.hooks.flush is None:
                self._record(runner, flushes, place)
                return None
            call, wanted, inside = flushes.call, flushes.wanted, flushes.inside
            if call is not None and not call.is_done:
                if wanted is not None:
                    if place.position > wanted.position:
                        flushes.wanted = place
                    return call
                if inside is not None and inside.position >= place.position and not again:
                    return call
            flushes.wanted = place
            flush = functools.partial(self._flush, runner.hooks.flush, flushes)
            settle = functools.partial(self._settle, runner, flushes)
            calls = self._board.calls
            flushes.call = calls.request(runner.name, "reput_flush", flush, settle)
            return flushes.call

    def _flush(
        self, hook: Callable[[], Any], flushes: Flushes
    ) -> tuple[PluginPosition, Any] | None:
        """Flush a plugin, on its thread; return what that covers, and the hook's answer."""
        with self.lock:
            if flushes.inside is not None:
                raise InterruptedError("an earlier flush was interrupted: its result is not known")
            covered, flushes.wanted = flushes.wanted, None
            # Requested twice, as a signal handler came between; or an earlier one has failed since.
            if covered is None or flushes.has_failed:
                return None
            flushes.inside = covered
        return covered, hook()

    def _settle(self, runner: PluginRunner, flushes: Flushes, call: Call) -> None:
        """Record the result of a flush."""
        if call.error is not None:
            waits = is_disk_full(call.error)  # the next round flushes what this one could not
            with self.lock:
                flushes.has_failed, flushes.inside = not waits, None
            if waits:
                runner.flush_waits(call.error)
            else:
                self._flush_failed(runner, call.error)
        elif call.result is not None:
            with self.lock:
                try:
                    if not self._is_over:
                        self._record(runner, flushes, *call.result)
                finally:  # if the log cannot be read: the next round flushes again
                    flushes.inside = None
            if runner.is_flush_waiting:
                runner.flushed()

    def _record(
        self,
        runner: PluginRunner,
        flushes: Flushes,
        covered: PluginPosition,
        answer: object = None,
    ) -> None:
        """Note that a plugin's files are on disk up to a place."""
        if answer is not None:
            self._index_timestamp = _index_timestamp(answer) or self._index_timestamp
        file = self._progress_files.get(runner.name)
        # Whether the plugin was opened again, or removed, meanwhile.
        is_old = runner.flushes is not flushes
        if file is not None and not is_old:
            record, last = covered.record_offset, self.log_note.last
            is_last = record == last.offset
            fingerprint = last.fingerprint if is_last else fingerprint_of(self._log, record)
            place = Progress(covered.position, record, fingerprint)
            self._changed[runner.name] = place.packed()
        flushes.covered = covered

    def _save_changed(self) -> None:
        """Write the entries of log and plugins whose bytes are on disk, in one write."""
        if self._changed and not self._is_over:
            self.log_note.state.save(self._changed)
            self._changed = {}

    def _wait(
        self, requested: Sequence[tuple[PluginRunner, Call]], patience: float | None
    ) -> dict[str, str]:
        """Wait for flushes; return why plugins were not flushed."""
        deadline = math.inf if patience is None else time.monotonic() + patience
        missed = {}
        for runner, call in requested:
            idle = self._board.stall_seconds
            done = call.wait(min(_PATIENCE, deadline - time.monotonic()), idle=idle)
            if not done:
                with self.lock:  # a plugin that takes long does not delay the record of the others
                    self._save_changed()
                done = call.wait(deadline - time.monotonic(), idle=idle)
            if done:
                if call.error is not None and is_disk_full(call.error):
                    missed[runner.name] = f"the disk is full: {call.error}"
                continue
            earlier = call.under_way
            if earlier.is_made_here:
                missed[runner.name] = f"this very thread is inside of {earlier.hook}"
            elif runner.mark_if_stalled(call):
                missed[runner.name] = runner.stalled_text
            else:
                missed[runner.name] = "it is being flushed"
        for _, call in requested:
            if not call.thread and call.is_done and self._is_over:
                raise self._closed()
        return missed

    def _flush_failed(self, runner: PluginRunner, error: BaseException) -> None:
        # Not retried, unlike one that found the disk full while it wrote: the system may have
        # dropped the pages that it could not write, and a second flush would report success without
        # them. The files count up to the recorded progress, and are written again from there.
        file = self._progress_files.get(runner.name)
        cut_to = None
        if file is not None:  # else the plugin dispatches nothing, and has no place to return to
            progress = next(iter(file.known()), None)
            cut_to = progress.physical_offset if progress is not None else 0
        runner.flush_failed(error, cut_to)

    # ------------------------------------------------------------------ the checkpoint

    def lower_checkpoint(self, **most: int) -> None:
        """Lower fields of the checkpoint durably; see `StoreContext.lower_checkpoint`."""
        with self.lock:
            old = self.log_note.checkpoint
            lower = {name: min(value, getattr(old, name)) for name, value in most.items()}
            self.log_note.save_checkpoint(attrs.evolve(old, **lower))
            self._index_timestamp = 0  # of a flush before the files were changed

    def _save_checkpoint(self) -> None:
        note, kept, offsets = self.log_note, [], []
        for runner in self._board.runners.values():
            if runner.hooks.queue_offsets is not None:
                covered = runner.flushes.covered
                kept.append(0 if covered is None else covered.store_timestamp)
                offsets.append(0 if covered is None else covered.record_offset)
        old = note.checkpoint
        offset = min(offsets, default=0)
        if offset <= 0:  # a log that was cut since has no record at the old one
            offset = max(min(old.queues_offset, note.last.offset), 0)
        changed = attrs.evolve(
            old,
            log_timestamp=note.last.store_timestamp or old.log_timestamp,
            # Up to this time, all messages are in flushed queues.
            queues_timestamp=min(kept, default=0) or old.queues_timestamp,
            index_timestamp=self._index_timestamp or old.index_timestamp,
            queues_offset=offset,
        )
        note.save_checkpoint(changed)

    # ------------------------------------------------------------------ running

    def start(self, seconds: float, each_round: Callable[[], None]) -> None:
        """Flush every so many seconds, on a thread of its own, and call ``each_round`` then."""
        round_ = functools.partial(self._flush_round, each_round)
        self._rounds = PeriodicThread("reput-flush-plugins", seconds, round_)
        self._rounds.start()

    def stop(self) -> None:
        """End the thread, without flushing."""
        if self._rounds is not None:
            self._rounds.stop()

    def end(self) -> None:
        """Write nothing from now on: later flushes are not recorded."""
        with self.lock:
            self._is_over = True

    def _flush_round(self, each_round: Callable[[], None]) -> bool:
        try:
            self.flush(_PATIENCE)
        except ReputError:  # the log's own thread has logged it, and requests are followed
            if self._is_over:
                return False  # an exception of a signal handler came between closing and `stop`
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
            logger.exception("requests not handled, tried again")
        return True


def called_inside(call: str) -> ServiceNotAvailableError:
    """Return the error of a call by a signal handler that interrupted code which must go on first.

    The call would wait for threads, and these for a lock that the interrupted code holds.
    """
    reason = f"{call} was called by a signal handler inside of another call of the store, which "
    reason += "cannot go on before the handler returns; set a flag in the handler, and call "
    reason += f"{call} when the other call has returned"
    return ServiceNotAvailableError("store", None, None, reason)


def _index_timestamp(answer: object) -> int:
    """Return the time in the answer of `reput_flush`, ms; 0 if it has none."""
    value = answer.get("index_timestamp") if isinstance(answer, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0

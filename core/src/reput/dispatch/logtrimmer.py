"""`LogTrimmer`: removes the oldest files of the log that no plugin needs, and notifies plugins.

`LiveHolds` and `RecordedHolds` know which plugins still need them: for messages not seen, or by
their hooks. Messages count as seen only when the plugin's files are on disk, as after a crash the
plugin is given all later messages again.

A user or a plugin decides how far the log is trimmed. Here are the bounds that hold for
all: whole files, the oldest first, never the last record's, and nothing that a plugin needs.

The order of the steps, with the reasons:

1. log and plugins are flushed: entries derived from a file must be on disk before its removal;
2. the next queue offsets are written: a queue that loses all its messages continues its offsets;
3. the head is noted in ``reput/state``: a log that begins later than noted has lost files. The note
   has a mark: from here on plugins may know of messages that are gone;
4. files of the log are removed, the oldest first, each durably before the next: a crash leaves no
   gap;
5. plugins are notified (`reput_trim`), one by one, and the mark is cleared after the last.

A crash between two steps costs nothing: plugins correct their minimum when they are opened, and if
the mark is set they are notified again at the next opening, so that they remove what they kept of
removed messages.

A reader that has a removed file open goes on reading it; a later read finds that the log does not
hold the offset. So no reader is waited for. (RocketMQ unmaps its files, waits for their users, and
unmaps them by force after 120 s; this is not necessary here.)

Source: RocketMQ ``MappedFileQueue#deleteExpiredFileByTime`` and ``CleanConsumeQueueService``.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.runtime.pluginstate import Phase
from reput.errors import PluginError, ReputError
from reput.files.system.flushing import is_disk_full
from reput.log.reader.ledgerfiles import LedgerFiles
from reput.log.writer.queueoffsets import count_queue_offsets
from reput.plugin.storeaccess import DROP, Hold, TrimReport
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reput.dispatch.pluginlifecycle import PluginLifecycle
    from reput.dispatch.runtime.hookcalls import Call
    from reput.dispatch.runtime.pluginrunner import PluginRunner
    from reput.log.reader.logreader import StoreLog
    from reput.log.recovery.logstate import LogHead
    from reput.log.writer.commitlog import CommitLog
    from reput.log.writer.queueoffsets import QueueFloors
    from reput.plugin.hooktable import Hook

logger = logging.getLogger(__name__)

_UNSEEN = "it has not seen the messages from there on"
_STOPPED = f"it does not run (reput resume), and {_UNSEEN}"
_NEEDED = "it needs the messages from there on"
_UNKNOWN = "it does not run, so that what it needs is not known"
_LOOK_SECONDS = 0.05  # how often a plugin that waits for the lock checks whether it was stopped


def preview(
    log: StoreLog,
    holds: LiveHolds | RecordedHolds,
    physical_offset: int,
    unseen: str,
    asker: str = "",
) -> TrimReport:
    """Return what `LogTrimmer.run` would do; changes nothing."""
    start, last = log.min_physical_offset, _last_message(log)
    if _end_of_files(log, physical_offset, (last,)) <= start:
        return TrimReport(start, start, (last,))  # plugins need not be asked
    found = last, *holds.known(unseen, asker)
    return TrimReport(start, _end_of_files(log, physical_offset, found), found)


@attrs.define(eq=False, repr=False)
class LogTrimmer:
    """Removes files of the log of a writable store. Thread-safe."""

    log: CommitLog
    holds: LiveHolds
    """Which parts of the log plugins need."""
    head: LogHead
    """Keeps where the log begins."""
    floors: QueueFloors
    """Keeps next offsets of queues that lose all their messages."""
    _is_stopped: bool = attrs.field(init=False, default=False)
    # Reentrant: a signal handler may close the store in the middle of a removal.
    lock: threading.RLock = attrs.field(init=False, factory=new_lock)

    def run(self, physical_offset: int, unseen: str, asker: str = "") -> TrimReport:
        """Remove the whole files below an offset that are not needed, and notify plugins.

        Plugins that were not notified of earlier removals are notified now, even if no file is
        removed.

        Args:
            physical_offset: where the log is to begin; a file that contains it stays.
            unseen: what to do with messages that a stopped plugin has not seen (`KEEP`, `DROP`).
            asker: the plugin that calls this; its own hooks are not called.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
            OSError: a file cannot be removed, or what must be on disk before cannot be written.
            PluginError: ``asker`` was stopped meanwhile.
        """
        with self.lock:
            start = self.log.min_physical_offset
            holds: tuple[Hold, ...] = (_last_message(self.log),)
            if _end_of_files(self.log, physical_offset, holds) > start:
                holds = self._remove(
                    physical_offset, unseen, asker
                )  # else plugins need not be asked
            end = self.log.min_physical_offset
            may_notify = not self._is_stopped and (end > start or self.head.must_notify)
            not_notified = self._notify(asker) if may_notify else []
        return TrimReport(start, end, holds, tuple(not_notified))

    def finish(self) -> None:
        """Notify plugins of what the last writer removed, if it could not; never raises."""
        if not self.head.must_notify:
            return
        try:
            with self.lock:
                self._notify("")
        except (OSError, ReputError) as error:
            # The mark stays; the next removal or opening tries again.
            logger.warning("plugins not notified of removed files error=%s", error)

    def stop(self) -> None:
        """Remove nothing from now on, as the store closes. Waits for a removal under way."""
        with self.holds.membership_lock(""):
            self._is_stopped = True

    # ------------------------------------------------------------------ how

    def _remove(self, physical_offset: int, unseen: str, asker: str) -> tuple[Hold, ...]:
        log = self.log
        # Copied before the flush, so that all messages counted in them are on disk.
        offsets = log.queue_offsets
        self._flush()
        self.holds.ask(asker)
        # Under the lock, so that no plugin is resumed at an offset that is being removed.
        with self.holds.membership_lock(asker):
            holds = _last_message(log), *self.holds.holds(unseen, asker)
            start, end = log.min_physical_offset, _end_of_files(log, physical_offset, holds)
            if end <= start or self._is_stopped:
                return holds
            try:
                self._write_down(offsets, end)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                # No room even for these notes: removing one file makes room for them.
                self._remove_below(start + log.file_size)
                self._write_down(offsets, end)
            self._remove_below(end)
        logger.info(
            "oldest log files removed file_count=%d size=%d min_physical_offset=%d",
            (end - start) // log.file_size,
            end - start,
            end,
        )
        return holds

    def _remove_below(self, end: int) -> None:
        self.holds.drop(end)
        self.log.files.trim(end)

    def _flush(self) -> None:
        """Flush log and plugins, so that unflushed bytes do not hold files back."""
        try:
            self.holds.flush()
        except OSError as error:
            # Mostly the checkpoint. A failed write on a full disk must not prevent the removal.
            if not is_disk_full(error):
                raise
            logger.warning("progress not written error=%s", error)

    def _write_down(self, offsets: Mapping[tuple[str, int], int] | None, end: int) -> None:
        self.head.note(end, trims=True)  # first: it needs no space
        if offsets is None:  # a replica's: its messages have them
            offsets = count_queue_offsets(self.log, end)
        self.floors.keep(offsets)

    def _notify(self, asker: str) -> list[str]:
        not_notified = self.holds.notify(asker)
        if not not_notified:
            self.head.notified()
        return not_notified


def _last_message(log: StoreLog) -> Hold:
    """Return the log's own need: the file of the last message stays, and all files after it."""
    last = log.last_record_offset
    if isinstance(log.files, LedgerFiles):
        return Hold(0, "", "DLedger removes the oldest files of its log")
    # A reader does not know the last record of a writer in another process.
    is_known = last >= 0 and not log.follows
    return Hold(last if is_known else log.max_physical_offset, "", "the last message stays")


def _end_of_files(log: StoreLog, physical_offset: int, holds: Iterable[Hold]) -> int:
    """Return where the log begins without the files below an offset that are not held."""
    limit = min([physical_offset, *(hold.physical_offset for hold in holds)])
    ends = [base + log.file_size for base in log.files.bases[:-1]]
    return max((end for end in ends if end <= limit), default=log.min_physical_offset)


# --------------------------------------------------------------------------- what plugins need


@attrs.define(eq=False)
class LiveHolds:
    """Asks and notifies the plugins of a writable store.

    A plugin that trims the log itself is given as ``asker``: its own hooks are not called, and it
    does not wait for the lock while it is being suspended or removed, which wait for it.
    """

    log: CommitLog
    live: PluginLifecycle
    _answers: dict[str, int] = attrs.field(factory=dict)
    """Physical offset from which on each plugin needs the log, by its last answer."""
    _notified: dict[str, int] = attrs.field(factory=dict)
    """Beginning of the log that each plugin was notified of last."""

    def membership_lock(self, asker: str) -> AbstractContextManager[Any]:
        """Return a lock; while held, no plugin is added, removed, suspended or resumed."""
        return self._membership_lock_for(asker) if asker else self.live.membership_lock

    @contextlib.contextmanager
    def _membership_lock_for(self, asker: str) -> Iterator[None]:
        lock = self.live.membership_lock
        while not lock.acquire(timeout=_LOOK_SECONDS):
            runner = self.live.board.runners.get(asker)
            if runner is None or not runner.is_active:
                raise PluginError(asker, "it was stopped while it removed files of the log")
        try:
            yield
        finally:
            lock.release()

    def flush(self) -> None:
        """Bring log, plugins and their progress to disk."""
        self.live.plugin_flusher.flush()

    # ------------------------------------------------------------------ asking

    def ask(self, asker: str) -> None:
        """Call `reput_hold` of all running plugins.

        It waits `RunnerContext.stall_seconds` for each at most.
        """
        for runner, hook in self._having("hold", asker):
            if not runner.may_run:
                continue  # its last answer still holds
            # Read before asking: it may need messages that it is given after its answer.
            derives = runner.hooks.dispatch is not None
            reached = runner.position if derives else self.log.max_physical_offset
            call = self._call(runner, "reput_hold", hook)
            needed = None if call is None or not call.is_done else self._answer(runner, call)
            self._answers[runner.name] = 0 if needed is None else min(needed, reached)

    def _answer(self, runner: PluginRunner, call: Call) -> int | None:
        """Return the offset that a plugin needs, the log's end for none; None if not known."""
        result = call.result
        if call.error is not None:
            return None
        if result is None:
            return self.log.max_physical_offset
        if isinstance(result, int) and not isinstance(result, bool):
            return result
        error = TypeError(f"reput_hold returned {result!r}; a physical offset or None expected")
        runner.stop(error)
        return None

    def known(self, unseen: str, asker: str) -> list[Hold]:
        """Ask the plugins; return what they need if their files count as flushed."""
        self.ask(asker)
        with self.membership_lock(asker):
            return self.holds(unseen, asker, flushed=False)

    def holds(self, unseen: str, asker: str, *, flushed: bool = True) -> list[Hold]:
        """Return what the log and the plugins need, by the answers to `ask`.

        Call it while `membership_lock` is held.

        Args:
            unseen: whether messages count that a stopped plugin has not seen (`KEEP`, `DROP`).
            asker: the plugin that trims, if one does.
            flushed: count messages as seen only if the plugin's files are on disk.
        """
        found = []
        if flushed:
            found.append(Hold(self.log.flushed_offset, "", "bytes that are not on disk yet"))
        for runner in self.live.board.runners.values():
            runs = runner.may_run
            if unseen == DROP and not runs and not self._is_inside(runner):
                continue
            if runner.hooks.dispatch is not None:
                state = _UNSEEN if runs else _STOPPED
                seen = self._seen(runner) if flushed else runner.position
                found.append(Hold(seen, runner.name, state))
            if runner.hooks.hold is not None and runner.name != asker:
                reason = _NEEDED if runner.name in self._answers else _UNKNOWN
                found.append(Hold(self._answers.get(runner.name, 0), runner.name, reason))
        return found

    def drop(self, min_physical_offset: int) -> None:
        """Move plugins that do not run past messages that are about to be removed."""
        for runner in self.live.board.runners.values():
            runner.drop(min_physical_offset)

    def _seen(self, runner: PluginRunner) -> int:
        """Return the offset below which a plugin will never be given a message again."""
        file = self.live.progress_files.get(runner.name)
        if file is None:
            return runner.position
        progress = next(iter(file.known()), None)
        return min(runner.position, 0 if progress is None else progress.physical_offset)

    def _is_inside(self, runner: PluginRunner) -> bool:
        """Whether a plugin is in a call after which it may simply go on."""
        return runner.phase is Phase.STALLED or bool(runner.calls)

    # ------------------------------------------------------------------ notifying

    def notify(self, asker: str) -> list[str]:
        """Call `reput_trim` of plugins that do not know the log's beginning yet.

        Returns:
            Names of plugins that could not be notified.
        """
        low = self.log.min_physical_offset
        not_notified = []
        for runner, hook in self._having("trim", asker):
            name = runner.name
            if not runner.may_run:
                self._notified.pop(name, None)  # it is opened again before it goes on
                not_notified.append(name)
            elif self._notified.get(name, -1) < low:
                trim = functools.partial(hook, min_physical_offset=low)
                call = self._call(runner, "reput_trim", trim)
                with self.membership_lock(asker):
                    if self.live.board.runners.get(name) is not runner:
                        self._notified.pop(name, None)  # it is opened again if it is added again
                    elif call is None or not call.is_done or call.error is not None:
                        not_notified.append(name)
                    # The files that it removed must be gone from the disk before it counts.
                    elif self.live.plugin_flusher.flush_plugin(runner, again=True):
                        self._notified[name] = low
                    else:
                        not_notified.append(name)
        return not_notified

    def _having(self, hook: str, asker: str) -> list[tuple[PluginRunner, Hook]]:
        """Return the plugins that implement a hook; they may be removed while others are called."""
        found = self.live.board.runners.values()
        return [
            (runner, function)
            for runner in found
            if runner.name != asker and (function := getattr(runner.hooks, hook)) is not None
        ]

    def _call(self, runner: PluginRunner, hook_name: str, hook: Callable[[], Any]) -> Call | None:
        """Call a hook; return None if the plugin does not run any more."""
        with self.live.board.lock:  # stopping the plugin waits from here on until the call is done
            if not runner.may_run:
                return None
            call = runner.request(hook_name, hook)
        if not call.wait(idle=self.live.board.stall_seconds):
            runner.mark_if_stalled(call)
        return call


@attrs.define(eq=False)
class RecordedHolds:
    """Needs of the plugins of a read-only store, as far as they are known."""

    runners: Mapping[str, PluginRunner]

    def known(self, unseen: str, asker: str) -> list[Hold]:
        """Return what plugins need, by the last writer's records and the plugins' `reput_hold`."""
        found = []
        for name, runner in self.runners.items():
            runs = runner.may_run  # once the next writer opens it
            if unseen == DROP and not runs:
                continue
            if runner.hooks.dispatch is not None:
                found.append(Hold(runner.position, name, _UNSEEN if runs else _STOPPED))
            if runner.hooks.hold is not None and name != asker:
                found += _asked(name, runner, runner.hooks.hold)
        return found


def _asked(name: str, runner: PluginRunner, hook: Callable[[], Any]) -> list[Hold]:
    if runner.is_broken:
        return [Hold(0, name, _UNKNOWN)]
    try:
        needed = hook()
    except Exception as error:  # a plugin may raise anything; nothing is removed here
        return [Hold(0, name, f"what it needs is not known: {error!r}")]
    if needed is None:
        return []
    return [Hold(needed if isinstance(needed, int) else 0, name, _NEEDED)]

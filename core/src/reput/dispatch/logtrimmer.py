"""`LogTrimmer`: removes the oldest files of the log, and notifies plugins.

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

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError
from reput.files.system.flushing import is_disk_full
from reput.log.reader.ledgerfiles import LedgerFiles
from reput.log.writer.queueoffsets import count_queue_offsets
from reput.plugin.storeaccess import Hold, TrimReport
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.dispatch.retentionholds import LiveHolds, RecordedHolds
    from reput.log.reader.logreader import StoreLog
    from reput.log.recovery.logstate import LogHead
    from reput.log.writer.commitlog import CommitLog
    from reput.log.writer.queueoffsets import QueueFloors

logger = logging.getLogger(__name__)


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

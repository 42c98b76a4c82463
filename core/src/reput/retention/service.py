"""`RetentionService`: removes expired files of the log, and notifies plugins.

The order of the steps, with the reasons:

1. log and plugins are flushed: what is derived from a file must be on disk before its removal;
2. the next queue offsets are written: a queue that loses all its messages continues its offsets;
3. the note ``reput/head`` is written: a log that begins later than the note says has lost files;
   then the mark ``reput/trimming``: from here on plugins may know of messages that are gone;
4. files of the log are removed, the oldest first, each durably before the next: a crash leaves no
   gap;
5. plugins are notified (`reput_trim`), one by one, and the mark is removed after the last.

A crash between two steps costs nothing: plugins correct their minimum when they are opened, and if
the mark exists they are notified again in the first round, so that they remove what they kept of
removed messages.

A reader that has a removed file open goes on reading it; a later read finds that the log does not
hold the offset. So no reader is waited for. (RocketMQ unmaps its files, waits for their users, and
unmaps them by force after 120 s; this is not necessary here.)

Source: RocketMQ ``DefaultMessageStore.CleanCommitLogService`` and ``CleanConsumeQueueService``.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from reput.errors import DiskFullError, PutError
from reput.files.names import OWN_DIRECTORY
from reput.locks import new_lock
from reput.retention.diskspace import percent_of, spaces_of
from reput.retention.plan import CleanPlan, ExpiryReport, Hold, LogFiles, Removal, decide

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.recovery.loghead import LogHead
    from reput.log.writing.commitlog import CommitLog
    from reput.log.writing.queuefloors import QueueFloors
    from reput.record.messages.message import Message
    from reput.retention.config import RetentionConfig
    from reput.retention.holds import LiveHolds, RecordedHolds

logger = logging.getLogger(__name__)

__all__ = ["ExpiryReport", "RetentionService"]

_LOOK_AGAIN_MS: Final = 1_000  # how often a refused put may check the disk
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_MARK: Final = "trimming"


class GuardedPuts(Protocol):
    """The puts of a store, which a check can refuse."""

    def guard(self, check: Callable[[Sequence[Message]], None] | None) -> None:
        """Have ``check`` called before each put, which it refuses by raising; None for no check."""
        ...


@attrs.define(eq=False)
class RetentionService:
    """Expires files of one store; for a read-only store, tells what would expire. Thread-safe."""

    root: str
    log: CommitLog
    disk: Disk
    clock: Callable[[], int]
    config: RetentionConfig
    """The store's own options."""
    holds: LiveHolds | RecordedHolds
    """Which parts of the log are needed: by running plugins, or by the last writer's records."""
    head: LogHead
    """Keeps where the log begins."""
    floors: QueueFloors
    """Keeps next offsets of queues that lose all their messages."""
    puts: GuardedPuts
    """The store's puts, refused while the disk is full."""
    is_full: bool = attrs.field(init=False, default=False)
    """Whether puts are refused now."""
    last_plan: CleanPlan | None = attrs.field(init=False, default=None)
    last_timestamp: int = attrs.field(init=False, default=0)
    removed_count: int = attrs.field(init=False, default=0)
    removed_size: int = attrs.field(init=False, default=0)
    _timestamps: dict[int, int] = attrs.field(init=False, factory=dict)
    """When the last message of a file was stored, by the file's base; files before the active one
    do not change."""
    _due: int | None = attrs.field(init=False, default=None)
    _is_stopped: bool = attrs.field(init=False, default=False)
    _looked_at: int = attrs.field(init=False, default=0)
    _used_percent: int = attrs.field(init=False, default=0)
    _warned_of: frozenset[str] = attrs.field(init=False, default=frozenset())
    # Reentrant: a signal handler may close the store in the middle of a removal.
    _lock: threading.RLock = attrs.field(init=False, factory=new_lock)
    _turning: threading.RLock = attrs.field(init=False, factory=new_lock)

    # ------------------------------------------------------------------ when

    def work(self, now: int) -> int | None:
        """Do what is due at ``now``, ms; return when to be called again, ms, None for never."""
        interval = self.config.check_interval_ms
        may_remove = self.config.is_active and self.log.refusal is None
        if self._due is None:
            # No removal at once: the program that opened the store may first want another action.
            self._due = now + interval
            if self._is_marked():
                with self._lock:
                    self._tell()
        elif may_remove and not now < self._due <= now + interval:  # else woken before it is due
            report = self.clean(in_background=True)
            self._due = now if report.removed and not report.is_complete else now + interval
        return self._due if may_remove else None

    def stop(self) -> None:
        """Remove nothing from now on, as the store closes. Waits for a removal under way."""
        with self.holds.still():
            self._is_stopped = True

    def clean(
        self,
        config: RetentionConfig | None = None,
        *,
        dry_run: bool = False,
        in_background: bool = False,
    ) -> ExpiryReport:
        """Remove the files that expire now.

        Args:
            config: options to use instead of the store's own, for this call.
            dry_run: only report what would be removed; always so for a read-only store.
            in_background: respect ``delete_when``, and remove only ``batch_count`` files.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
            OSError: a file cannot be removed, or what must be on disk before cannot be written.
        """
        config = config or self.config
        with self._lock:
            plan = self._plan(config, (), at_any_hour=not in_background)
            removed: tuple[Removal, ...] = ()
            if plan.removals:  # else plugins need not be asked
                plan, removed = self._remove(config, dry_run=dry_run, in_background=in_background)
            if dry_run:
                return ExpiryReport(True, plan, (), self.log.min_physical_offset)
            may_tell = not self._is_stopped and (bool(removed) or self._is_marked())
            not_notified = self._tell() if may_tell else []
            self._note(plan, removed)
            if config.disk_warn_ratio or self.is_full:
                self.look_at_disk()
        low = self.log.min_physical_offset
        return ExpiryReport(False, plan, removed, low, tuple(not_notified))

    # ------------------------------------------------------------------ how

    def _remove(
        self, config: RetentionConfig, *, dry_run: bool, in_background: bool
    ) -> tuple[CleanPlan, tuple[Removal, ...]]:
        log = self.log
        # Copied before the flush, so that all messages counted in them are on disk.
        offsets = log.queue_offsets
        if not dry_run:
            self._flush()
        self.holds.ask(config)
        # Under the lock, so that no plugin is resumed at an offset that is being removed.
        with self.holds.still():
            holds = self.holds.holds(config, flushed=not dry_run)
            plan = self._plan(config, holds, at_any_hour=not in_background)
            going = plan.removals[: config.batch_count] if in_background else plan.removals
            if dry_run or not going or self._is_stopped:
                return plan, ()
            end = going[-1].end_offset
            try:
                self._write_down(offsets, end)
            except OSError as error:
                if error.errno not in _NO_SPACE:
                    raise
                # No room even for these notes: removing one file makes room for them.
                self.holds.drop(going[0].end_offset)
                log.files.trim(going[0].end_offset)
                self._write_down(offsets, end)
            self.holds.drop(end)
            log.files.trim(end)
            self._forget_below(end)
        return plan, going

    def _plan(
        self, config: RetentionConfig, holds: Sequence[Hold], *, at_any_hour: bool
    ) -> CleanPlan:
        """Decide, by the store's present state, what to remove now; changes nothing."""
        log = self.log
        end = log.max_physical_offset
        bases = log.files.bases
        files = LogFiles(
            bases,
            log.file_size,
            log.last_record_offset if log.last_record_offset >= 0 and not log.follows else end,
            self._last_stored,
        )
        spaces = spaces_of(self.disk, self.root, log.files.directory) if config.watches_disk else ()
        return decide(
            config, files, self.clock(), spaces=spaces, holds=holds, at_any_hour=at_any_hour
        )

    def _last_stored(self, base: int) -> int:
        """Return when the last message of a file was stored, ms, or a little later.

        This is the store time of the next file's first record, which was stored at once after it,
        but not earlier than that of the file's own first record, as a clock may have been set back.
        If both are damaged, it is the file's modification time.
        """
        known = self._timestamps.get(base)
        if known is None:
            log = self.log
            first, following = (
                log.store_timestamp_at(base),
                log.store_timestamp_at(base + log.file_size),
            )
            known = max(first, following) if following >= 0 else -1
            if known < 0:
                known = max(first, self._modified(base))
            self._timestamps[base] = known
        return known

    def _modified(self, base: int) -> int:
        try:
            return self.disk.modified_ms(self.log.files.path(base))
        except FileNotFoundError:  # another process removed it
            return 0

    def _forget_below(self, offset: int) -> None:
        """Forget the times of removed files."""
        for base in [base for base in self._timestamps if base < offset]:
            del self._timestamps[base]

    def _flush(self) -> None:
        """Flush log and plugins, so that unflushed bytes do not hold files back."""
        try:
            self.holds.flush()
        except OSError as error:
            # Mostly the checkpoint. A failed write on a full disk must not prevent making room.
            if error.errno not in _NO_SPACE:
                raise
            logger.warning("progress not written error=%s", error)

    def _write_down(self, offsets: Mapping[tuple[str, int], int], end: int) -> None:
        self.head.note(end)  # first: it needs no space
        self.floors.keep(offsets)
        self.disk.replace(self._mark_path, b"%d\n" % end)

    def _tell(self) -> list[str]:
        not_notified = self.holds.tell()
        if not not_notified and self._is_marked():
            self.disk.remove(self._mark_path)
        return not_notified

    @property
    def _mark_path(self) -> str:
        return os.path.join(self.root, OWN_DIRECTORY, _MARK)

    def _is_marked(self) -> bool:
        return self.disk.exists(self._mark_path)

    def _note(self, plan: CleanPlan, removed: Sequence[Removal]) -> None:
        self.last_plan = attrs.evolve(plan, removals=plan.removals[len(removed) :])
        self.last_timestamp = self.clock()
        self.removed_count += len(removed)
        self.removed_size += sum(each.size for each in removed)
        if removed:
            logger.info(
                "log lost its head file_count=%d size=%d min_physical_offset=%d reason=%s",
                len(removed),
                sum(each.size for each in removed),
                removed[-1].end_offset,
                removed[-1].reason,
            )
        holding = frozenset(hold.plugin for hold in plan.holds)
        if holding - self._warned_of:  # once for each plugin, until there are no holds
            first = plan.holds[0]
            logger.warning(
                "files kept beyond their time size=%d plugin=%s physical_offset=%d reason=%s",
                plan.held_size,
                first.plugin or "-",
                first.physical_offset,
                first.reason,
            )
        self._warned_of = self._warned_of | holding if holding else frozenset()

    # ------------------------------------------------------------------ a full disk

    def look_at_disk(self) -> None:
        """Measure the disks; refuse puts if one is too full, and accept them again if none is."""
        spaces = spaces_of(self.disk, self.root, self.log.files.directory)
        self._looked_at = self.clock()
        self._used_percent = max((space.percent for space in spaces), default=0)
        is_full = 0 < percent_of(self.config.disk_warn_ratio) < self._used_percent
        if is_full != self.is_full:
            with self._turning:  # a put may check the disk at the same time
                self.is_full = is_full
                # A guard, so that puts pay for the check only while the disk is full.
                self.puts.guard(self.refuse if is_full else None)
            logger.log(
                logging.ERROR if is_full else logging.WARNING,
                "disk %s used_percent=%d limit=%d",
                "full, puts are refused" if is_full else "has space again, puts are taken",
                self._used_percent,
                percent_of(self.config.disk_warn_ratio),
            )

    def refuse(self, messages: Sequence[Message]) -> None:
        """Refuse a put while the disk is full; measures it again now and then.

        Raises:
            DiskFullError: the disk is still full.
        """
        if abs(self.clock() - self._looked_at) >= _LOOK_AGAIN_MS:
            self.look_at_disk()
        if self.is_full:
            raise self._refusal()

    def _refusal(self) -> PutError:
        return DiskFullError(
            "store",
            f"{self._used_percent} % used",
            f"{percent_of(self.config.disk_warn_ratio)} %",
            f"the disk of {self.root} is full; make room, or keep less ([retention]); "
            "puts work again when there is",
        )

    # ------------------------------------------------------------------ reporting

    def report(self) -> dict[str, Any]:
        """Return the facts for `reput.Store.report`."""
        plan = self.last_plan
        if plan is None:
            plan = self.clean(dry_run=True).plan if self.config.is_active else CleanPlan(())
        facts = plan.report(self.config)
        if not self.holds.is_live:
            return facts
        return facts | {
            "is_disk_full": self.is_full,
            "removed_count": self.removed_count,
            "removed_size": self.removed_size,
            "last_timestamp": self.last_timestamp or None,
        }

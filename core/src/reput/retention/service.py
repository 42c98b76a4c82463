"""Removes what the retention of a store says: files of the log first, then plugins are told.

The order, and why:

1. log and plugins are flushed: what is derived from a file must be on disk before the file goes;
2. the next queue offsets are written: a queue that loses all its messages goes on where it was;
3. the mark ``reput/trimming``: from here on plugins may know less than the log;
4. files of the log, the oldest first, each name off the disk before the next one goes: a crash
   leaves no gap;
5. plugins are told (`reput_trim`), each by itself, and the mark goes when all of them were.

A crash between two steps costs nothing: plugins correct their minimum when they are opened, and
where the mark is still there they are told again in the first round, so that what they keep of
messages that are gone does not stay behind.

A reader that has one of the files open goes on reading it; who comes later is told that the log
does not hold it. So nobody need be waited for. (RocketMQ unmaps its files, waits for those who use
them and after 120 s unmaps them by force; there is no such thing as a hanged file here.)

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
    from reput.files.disk import Disk
    from reput.log.writing.commitlog import CommitLog
    from reput.log.writing.queuefloors import QueueFloors
    from reput.record.message import Message
    from reput.retention.config import RetentionConfig
    from reput.retention.holds import LiveHolds, RecordedHolds

logger = logging.getLogger(__name__)

__all__ = ["ExpiryReport", "RetentionService"]

_LOOK_AGAIN_MS: Final = 1_000  # how often a refused put may look at the disk
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_MARK: Final = "trimming"


class GuardedPuts(Protocol):
    """What messages are put through."""

    def guard(self, check: Callable[[Sequence[Message]], None] | None) -> None:
        """Have ``check`` asked about each put, which raises to refuse it; None: nobody."""
        ...


@attrs.define(eq=False)
class RetentionService:
    """The retention of one store; of one that is only read, what it would do. Thread-safe."""

    root: str
    log: CommitLog
    disk: Disk
    clock: Callable[[], int]
    config: RetentionConfig
    """The store's own options."""
    holds: LiveHolds | RecordedHolds
    """Who needs the head of the log: asked of running plugins, or as the last writer wrote it."""
    floors: QueueFloors
    """Where queues go on that lose all their messages."""
    puts: GuardedPuts
    """Where puts are refused while the disk is full."""
    is_full: bool = attrs.field(init=False, default=False)
    """Whether puts are refused."""
    last_plan: CleanPlan | None = attrs.field(init=False, default=None)
    last_timestamp: int = attrs.field(init=False, default=0)
    removed_count: int = attrs.field(init=False, default=0)
    removed_size: int = attrs.field(init=False, default=0)
    _timestamps: dict[int, int] = attrs.field(init=False, factory=dict)
    """When the last message of a file was stored, by its base: files before the active one do not
    change."""
    _due: int | None = attrs.field(init=False, default=None)
    _is_stopped: bool = attrs.field(init=False, default=False)
    _looked_at: int = attrs.field(init=False, default=0)
    _used_percent: int = attrs.field(init=False, default=0)
    _warned_of: frozenset[str] = attrs.field(init=False, default=frozenset())
    # One that may be taken again: a signal handler may close the store in the middle of a removal.
    _lock: threading.RLock = attrs.field(init=False, factory=new_lock)
    _turning: threading.RLock = attrs.field(init=False, factory=new_lock)

    # ------------------------------------------------------------------ when

    def work(self, now: int) -> int | None:
        """Do what is due at ``now``; when to be called again, ms, None for never."""
        interval = self.config.check_interval_ms
        may_remove = self.config.is_active and self.log.refusal is None
        if self._due is None:
            # Not the files yet: whoever opens a store may want to say something first.
            self._due = now + interval
            if self._is_marked():
                with self._lock:
                    self._tell()
        elif may_remove and not now < self._due <= now + interval:  # else woken for another reason
            report = self.clean(in_background=True)
            self._due = now if report.removed and not report.is_complete else now + interval
        return self._due if may_remove else None

    def stop(self) -> None:
        """Remove nothing any more: the store is being closed. Waits for a removal under way."""
        with self.holds.still():
            self._is_stopped = True

    def clean(
        self,
        config: RetentionConfig | None = None,
        *,
        dry_run: bool = False,
        in_background: bool = False,
    ) -> ExpiryReport:
        """Remove what is to go now.

        Args:
            config: other options than the store's own, for this time.
            dry_run: only say what would go, which is all that a store can that is only read.
            in_background: mind the hour, and remove some files at a time.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
            OSError: a file cannot be removed, or what must be on disk before cannot be written.
        """
        config = config or self.config
        with self._lock:
            plan = self._plan(config, (), at_any_hour=not in_background)
            removed: tuple[Removal, ...] = ()
            if plan.removals:  # else nobody need be asked
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
        # Before the flush: what is written down of them must be on disk.
        offsets = dict(log.queue_offsets)
        if not dry_run:
            self._flush()
        self.holds.ask(config)
        # From here on nobody begins in front of what is removed.
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
                # No room even for that: one file makes it, and then it is written.
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
        """What goes now, by what the store looks like; changes nothing."""
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
        """When the last message of a file was stored, ms, or a little later.

        That is what the first record of the next file says, as it was stored then or at once
        behind. (Not earlier than the first one of the file itself: a clock may have been put back.)
        The time of the file itself where damage took both.
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
        """Keep nothing in mind of files that are gone."""
        for base in [base for base in self._timestamps if base < offset]:
            del self._timestamps[base]

    def _flush(self) -> None:
        """Bring to disk what would hold files back for no other reason."""
        try:
            self.holds.flush()
        except OSError as error:
            # The checkpoint, mostly. What a full disk could not take must not keep it full.
            if error.errno not in _NO_SPACE:
                raise
            logger.warning("progress not written error=%s", error)

    def _write_down(self, offsets: Mapping[tuple[str, int], int], end: int) -> None:
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
        if holding - self._warned_of:  # once for each, until nobody holds anything
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
        """Refuse puts where the disk is too full, and take them again where it is not."""
        spaces = spaces_of(self.disk, self.root, self.log.files.directory)
        self._looked_at = self.clock()
        self._used_percent = max((space.percent for space in spaces), default=0)
        is_full = 0 < percent_of(self.config.disk_warn_ratio) < self._used_percent
        if is_full != self.is_full:
            with self._turning:  # a put may look at the disk at the same time
                self.is_full = is_full
                # As the first of the hooks, so that puts pay for it only while it is needed.
                self.puts.guard(self.refuse if is_full else None)
            logger.log(
                logging.ERROR if is_full else logging.WARNING,
                "disk %s used_percent=%d limit=%d",
                "full, puts are refused" if is_full else "has space again, puts are taken",
                self._used_percent,
                percent_of(self.config.disk_warn_ratio),
            )

    def refuse(self, messages: Sequence[Message]) -> None:
        """Stand in front of the puts while the disk is full.

        Raises:
            DiskFullError: it still is.
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

    # ------------------------------------------------------------------ telling others

    def report(self) -> dict[str, Any]:
        """Facts for `reput.Store.report`."""
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

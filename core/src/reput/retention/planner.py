"""Looks at a store, open for writing or for reading, and says what is to go; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from reput.retention.diskspace import spaces_of
from reput.retention.plan import CleanPlan, Hold, LogFiles, Removal, decide

if TYPE_CHECKING:
    from reput.files.disk import Disk
    from reput.log.writing.commitlog import CommitLog
    from reput.retention.config import RetentionConfig
    from reput.retention.holds import RecordedHolds

__all__ = ["ExpiryReport", "Planner", "RetentionReader", "facts_of"]


@attrs.frozen
class ExpiryReport:
    """What a cleaning did, or would do."""

    is_dry_run: bool
    plan: CleanPlan
    """What was decided."""
    removed: tuple[Removal, ...] = ()
    """Files that were removed; none in a dry run."""
    min_physical_offset: int = 0
    """Where the log begins now."""
    not_notified: tuple[str, ...] = ()
    """Plugins that are still to be told, as they do not run or did not answer."""

    @property
    def removed_size(self) -> int:
        """Bytes of the files that were removed."""
        return sum(each.size for each in self.removed)

    @property
    def is_complete(self) -> bool:
        """Whether everything that was to go has gone."""
        return len(self.removed) == len(self.plan.removals)


@attrs.define(eq=False)
class Planner:
    """Looks at a store and decides what is to go; changes nothing."""

    root: str
    log: CommitLog
    disk: Disk
    clock: Callable[[], int]
    config: RetentionConfig
    _timestamps: dict[int, int] = attrs.field(factory=dict)
    """When the last message of a file was stored, by its base: files behind the active one do not
    change."""

    def plan(
        self, config: RetentionConfig, holds: Sequence[Hold], *, at_any_hour: bool
    ) -> CleanPlan:
        """What goes now."""
        log = self.log
        end = log.max_physical_offset
        bases = log.files.bases
        files = LogFiles(
            bases,
            log.file_size,
            log.last_record_offset if log.last_record_offset >= 0 and not log.follows else end,
            self.last_timestamp,
        )
        spaces = spaces_of(self.disk, self.root, log.files.directory) if config.watches_disk else ()
        return decide(
            config, files, self.clock(), spaces=spaces, holds=holds, at_any_hour=at_any_hour
        )

    def last_timestamp(self, base: int) -> int:
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

    def forget_below(self, offset: int) -> None:
        """Keep nothing in mind of files that are gone."""
        for base in [base for base in self._timestamps if base < offset]:
            del self._timestamps[base]


@attrs.define(eq=False)
class RetentionReader:
    """What a cleaning of a store would do that is open for reading."""

    planner: Planner
    holds: RecordedHolds
    is_full: bool = False

    def clean(self, config: RetentionConfig | None = None) -> ExpiryReport:
        """What would go now."""
        config = config or self.planner.config
        plan = self.planner.plan(config, self.holds.holds(config), at_any_hour=True)
        return ExpiryReport(True, plan, (), self.planner.log.min_physical_offset)

    def report(self) -> dict[str, Any]:
        """Facts for `reput.Store.report`."""
        return facts_of(self.planner.config, self.clean().plan)


def facts_of(config: RetentionConfig, plan: CleanPlan) -> dict[str, Any]:
    """A configuration and a plan as facts, JSON-like."""
    return {
        "is_active": config.is_active,
        "config": attrs.asdict(config),
        "due_count": len(plan.removals),
        "due_size": plan.freed_size,
        "held_count": len(plan.held),
        "held_size": plan.held_size,
        "holds": [attrs.asdict(hold) for hold in plan.holds],
        "is_disk_full": plan.is_disk_full,
        "used_percent": plan.used_percent,
    }

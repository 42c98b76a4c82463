"""The plugin ``retention``: its hooks.

Source: RocketMQ ``DefaultMessageStore.CleanCommitLogService``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

import reput
from reput.errors import DiskFullError, ReputError
from reput.plugin import PutInterest
from reput_retention.cleaner import Cleaner, check_arguments
from reput_retention.cleanplan import CleanPlan
from reput_retention.config import RetentionConfig
from reput_retention.diskspace import percent_of, spaces_of

if TYPE_CHECKING:
    from reput import Message, StoreContext
    from reput_retention.cleanplan import ExpiryReport

logger = logging.getLogger(__name__)

_CHECK_INTERVAL_MS: Final = 10_000  # between two checks of ages, sizes and the disk
_LOOK_AGAIN_MS: Final = 1_000  # how often a refused put may check the disk


@attrs.define(eq=False, repr=False)
class RetentionPlugin(reput.Plugin):
    """Removes old files of the log, and refuses puts while the disk is full."""

    name: ClassVar[str] = "retention"
    config_type: ClassVar[type] = RetentionConfig
    is_policy: ClassVar[bool] = True
    store_methods: ClassVar[frozenset[str]] = frozenset({"expire_log"})

    config: RetentionConfig = attrs.field(factory=RetentionConfig)
    context: StoreContext = attrs.field(init=False)
    is_full: bool = attrs.field(init=False, default=False)
    """Whether puts are refused now."""
    last_plan: CleanPlan | None = attrs.field(init=False, default=None)
    last_timestamp: int = attrs.field(init=False, default=0)
    _cleaner: Cleaner = attrs.field(init=False)
    _began_at: int = attrs.field(init=False, default=0)
    """Where the log began when the plugin was opened."""
    _due: int | None = attrs.field(init=False, default=None)
    _looked_at: int = attrs.field(init=False, default=0)
    _used_percent: int = attrs.field(init=False, default=0)

    @property
    def put_interest(self) -> PutInterest | None:
        """All messages while the disk is full, else none: puts pay for the check only then."""
        return None if self.is_full else PutInterest()

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Measure the disks: a store on a full disk takes no puts from the start."""
        self.context = context
        self._cleaner = Cleaner.of(context)
        self._began_at = context.log.min_physical_offset
        self._due = self.last_plan = None
        if context.writable and self.config.disk_warn_ratio:
            self._look_at_disk()

    # ------------------------------------------------------------------ removing

    @reput.hookimpl
    def reput_work(self, now: int) -> int | None:
        """Remove what is due at ``now``."""
        if not self.config.is_active:
            return None
        if self._due is None:
            # No removal at once: the program that opened the store may first want another action.
            self._due = now + _CHECK_INTERVAL_MS
        elif not now < self._due <= now + _CHECK_INTERVAL_MS:  # else woken before it is due
            self._due = now if self._clean() else now + _CHECK_INTERVAL_MS
        return self._due

    def _clean(self) -> bool:
        """Remove a few files; return whether more are to be removed at once."""
        try:
            report = self._expire(self.config, in_background=True)
        except (OSError, ReputError) as error:
            # Not left to the store, which would suspend the plugin after a few failures.
            logger.warning("old files not removed, tried again error=%s", error)
            return False
        return bool(report.removed) and not report.is_complete

    def expire_log(
        self, *, dry_run: bool = False, config: RetentionConfig | None = None
    ) -> ExpiryReport:
        """Remove the log's oldest files now, at any hour; see `reput_retention.expire_log`.

        Args:
            dry_run: only report what would be removed, and change nothing.
            config: options to follow instead of the store's own, for this call.
        """
        check_arguments(dry_run, config)
        self.context.store.trim_log(0, dry_run=True)  # refused if the store is closed
        return self._expire(config or self.config, dry_run=dry_run)

    def _expire(
        self, config: RetentionConfig, *, dry_run: bool = False, in_background: bool = False
    ) -> ExpiryReport:
        report = self._cleaner.clean(config, dry_run=dry_run, in_background=in_background)
        if not dry_run:
            left = report.plan.removals[len(report.removed) :]
            self.last_plan = attrs.evolve(report.plan, removals=left)
            self.last_timestamp = self.context.clock()
            if self.config.disk_warn_ratio or self.is_full:
                self._look_at_disk()
        return report

    # ------------------------------------------------------------------ a full disk

    @reput.hookimpl
    def reput_put(self, messages: Sequence[Message]) -> None:
        """Refuse puts while the disk is full; measure it again now and then.

        Raises:
            DiskFullError: the disk is still full.
        """
        if abs(self.context.clock() - self._looked_at) >= _LOOK_AGAIN_MS:
            self._look_at_disk()
        if self.is_full:
            raise DiskFullError(
                "store",
                f"{self._used_percent} % used",
                f"{percent_of(self.config.disk_warn_ratio)} %",
                f"the disk of {self.context.root} is full; make room, or keep less ([retention]); "
                "puts work again when there is",
            )

    def _look_at_disk(self) -> None:
        """Measure the disks; refuse puts if one is too full, and accept them again if none is."""
        context, limit = self.context, percent_of(self.config.disk_warn_ratio)
        spaces = spaces_of(context.disk, context.root, self._cleaner.log_directory)
        self._looked_at = context.clock()
        self._used_percent = max((space.percent for space in spaces), default=0)
        is_full = 0 < limit < self._used_percent
        if is_full == self.is_full:
            return
        self.is_full = is_full
        context.renew_interest()
        logger.log(
            logging.ERROR if is_full else logging.WARNING,
            "disk %s used_percent=%d limit=%d",
            "full, puts are refused" if is_full else "has space again, puts are taken",
            self._used_percent,
            limit,
        )

    # ------------------------------------------------------------------ reporting

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return the options, what they would remove, what holds it back, what was removed."""
        plan = self.last_plan
        if plan is None:
            plan = CleanPlan(())
            if self.config.is_active:
                plan = self._cleaner.clean(self.config, dry_run=True).plan
        facts = plan.report(self.config)
        if not self.context.writable:
            return facts
        removed_size = self.context.log.min_physical_offset - self._began_at
        return facts | {
            "is_disk_full": self.is_full,
            "removed_count": removed_size // self.context.log.file_size,
            "removed_size": removed_size,
            "last_timestamp": self.last_timestamp or None,
        }

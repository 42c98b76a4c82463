"""`Cleaner`: finds the files of one store's log that expire, and has them removed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import attrs

from reput.files import Disk, file_name, system_clock
from reput_retention.cleanplan import BATCH_COUNT, CleanPlan, ExpiryReport, LogFiles, decide
from reput_retention.config import RetentionConfig
from reput_retention.diskspace import spaces_of

if TYPE_CHECKING:
    from reput import Store, StoreContext
    from reput.log import LogView
    from reput.plugin import TrimReport
    from reput_retention.diskspace import Space

logger = logging.getLogger(__name__)

_LOG_DIRECTORY = "commitlog"


@attrs.define(eq=False, repr=False)
class Cleaner:
    """Cleans one store. Thread-safe."""

    root: str
    log: LogView
    disk: Disk
    clock: Callable[[], int]
    trim: Callable[..., TrimReport]
    """`reput.Store.trim_log`, or a plugin's."""
    _timestamps: dict[int, int] = attrs.field(init=False, factory=dict)
    """When the last message of a file was stored, by the file's base; files before the active one
    do not change."""
    _warned_of: frozenset[str] = attrs.field(init=False, default=frozenset())

    @classmethod
    def of(cls, context: StoreContext) -> Self:
        """Return the cleaner of a plugin's store."""
        store = context.store  # it refuses every call until it is open

        def trim(physical_offset: int, **options: Any) -> TrimReport:
            return store.trim_log(physical_offset, **options)

        return cls(context.root, context.log, context.disk, context.clock, trim)

    @property
    def log_directory(self) -> str:
        """Directory of the log's files."""
        return os.path.join(self.root, _LOG_DIRECTORY)

    def clean(
        self, config: RetentionConfig, *, dry_run: bool = False, in_background: bool = False
    ) -> ExpiryReport:
        """Remove the files that expire now.

        Args:
            config: the options to follow.
            dry_run: only report what would be removed; always so for a read-only store.
            in_background: respect ``delete_when``, and remove only a few files.

        Raises:
            ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
            OSError: a file cannot be removed, or what must be on disk before cannot be written.
        """
        plan = self._plan(config, at_any_hour=not in_background)
        going = plan.removals[:BATCH_COUNT] if in_background else plan.removals
        if dry_run and not going:
            return ExpiryReport(True, plan, (), plan.min_physical_offset)
        # Also without such files: plugins may still have to be notified of earlier removals.
        end = going[-1].end_offset if going else 0
        trimmed = self.trim(end, unseen=config.unseen, dry_run=dry_run)
        plan = plan.held_by(trimmed.holds)
        if dry_run:
            return ExpiryReport(True, plan, (), trimmed.start_offset)
        low = trimmed.min_physical_offset
        self._forget_below(low)
        removed = tuple(
            each
            for each in plan.removals
            if trimmed.start_offset <= each.base_offset and each.end_offset <= low
        )
        self._warn(plan)
        return ExpiryReport(False, plan, removed, low, trimmed.not_notified)

    def _plan(self, config: RetentionConfig, *, at_any_hour: bool) -> CleanPlan:
        """Decide, by the store's present state, what to remove now; changes nothing."""
        log = self.log
        files = LogFiles(log.file_offsets, log.file_size, self._last_stored)
        spaces: Sequence[Space] = ()
        if config.watches_disk:
            spaces = spaces_of(self.disk, self.root, self.log_directory)
        return decide(config, files, self.clock(), spaces=spaces, at_any_hour=at_any_hour)

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
            return self.disk.modified_ms(os.path.join(self.log_directory, file_name(base)))
        except FileNotFoundError:  # another process removed it
            return 0

    def _forget_below(self, offset: int) -> None:
        """Forget the times of removed files."""
        for base in [base for base in list(self._timestamps) if base < offset]:
            self._timestamps.pop(base, None)  # another thread may have removed it

    def _warn(self, plan: CleanPlan) -> None:
        """Warn of plugins that hold files back: once for each, until there are no holds."""
        holding = frozenset(hold.plugin for hold in plan.holds)
        if holding - self._warned_of:
            first = plan.holds[0]
            logger.warning(
                "files kept beyond their time size=%d plugin=%s physical_offset=%d reason=%s",
                plan.held_size,
                first.plugin or "-",
                first.physical_offset,
                first.reason,
            )
        self._warned_of = self._warned_of | holding if holding else frozenset()


def expire_log(
    store: Store, *, dry_run: bool = False, config: RetentionConfig | None = None
) -> ExpiryReport:
    """Remove the oldest files of a store's log as ``config`` asks, at any hour.

    Any store will do, also one that does not use the plugin ``retention``.

    Args:
        store: an open store.
        dry_run: only report what would be removed, and change nothing; also possible in a store
            opened with ``mode="r"``.
        config: the options to follow; if left out, the options of the store's plugin, or, in a
            store without it, options that remove nothing.

    Raises:
        ReadOnlyStoreError: the store was opened with ``mode="r"``.
        ServiceNotAvailableError: the log cannot be flushed; nothing was removed.
        OSError: a file cannot be removed, or what must be on disk before cannot be written.
        TypeError: an argument of a wrong type.
    """
    plugin: Any = store.plugin_objects.get("retention")
    if plugin is not None:
        found: ExpiryReport = plugin.expire_log(dry_run=dry_run, config=config)
        return found
    check_arguments(dry_run, config)
    disk = Disk().at(store.root)
    cleaner = Cleaner(store.root, store.log, disk, system_clock, store.trim_log)
    return cleaner.clean(config or RetentionConfig(), dry_run=dry_run)


def check_arguments(dry_run: object, config: object) -> None:
    """Check the arguments of a public method.

    Raises:
        TypeError: one is of a wrong type.
    """
    if not isinstance(dry_run, bool):
        raise TypeError(f"dry_run: True or False expected, found {dry_run!r}")
    if config is not None and not isinstance(config, RetentionConfig):
        raise TypeError(f"config: a RetentionConfig expected, found {config!r}")

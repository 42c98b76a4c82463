"""Decides which files of the log are removed: pure functions of their arguments.

Only whole files are removed, the oldest first, and never the last one. The configuration asks for a
run of the oldest files; holds, of plugins that still need the log from an offset on, cut the run
short (`CleanPlan.held_by`).

Source: RocketMQ ``CleanCommitLogService``, ``MappedFileQueue#deleteExpiredFileByTime``. Different
on purpose: for a full disk as many files are removed as the disk needs, where RocketMQ
removes ten at a time; and plugins are asked what they still need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_retention.diskspace import percent_of

if TYPE_CHECKING:
    from reput.plugin import Hold
    from reput_retention.config import RetentionConfig
    from reput_retention.diskspace import Space

AGE: Final = "age"
SIZE: Final = "size"
SPACE: Final = "space"
BATCH_COUNT: Final = 10
"""Most files that are removed at a time in the background; further ones follow at once."""


@attrs.frozen
class Removal:
    """A file that is removed, or would be."""

    base_offset: int
    size: int
    last_timestamp: int
    """When its last message was stored, ms."""
    reason: str
    """``"age"``, ``"size"`` or ``"space"``: the first of these that applies."""

    @property
    def end_offset(self) -> int:
        """Physical offset at which the file ends."""
        return self.base_offset + self.size


@attrs.frozen
class LogFiles:
    """The files of a log."""

    bases: Sequence[int]
    """Base offsets, ascending; the files lie end to end."""
    file_size: int
    last_timestamp: Callable[[int], int]
    """Returns when the last message of the file with a base was stored, ms. Called only for the
    oldest files, as far as necessary."""

    @property
    def removable(self) -> Sequence[int]:
        """Bases of the files that may be removed: all but the last one."""
        return self.bases[:-1]


@attrs.frozen
class CleanPlan:
    """Which files are to be removed, and which are kept only because of holds."""

    removals: tuple[Removal, ...]
    """Files to be removed, oldest first."""
    held: tuple[Removal, ...] = ()
    """Files that would be removed, too, if no plugin needed them."""
    holds: tuple[Hold, ...] = ()
    """The holds that keep these files, the lowest offset first."""
    min_physical_offset: int = 0
    """Where the log begins after the removals."""
    is_disk_full: bool = False
    """Whether puts must be refused."""
    used_percent: int = 0
    """Usage of the fullest disk, in percents; 0 if it was not measured."""

    @property
    def freed_size(self) -> int:
        """Bytes of the files to be removed."""
        return sum(each.size for each in self.removals)

    @property
    def held_size(self) -> int:
        """Bytes of the files that are held back."""
        return sum(each.size for each in self.held)

    def held_by(self, holds: Sequence[Hold]) -> CleanPlan:
        """Return the plan without the files that are needed, by a plugin or the log itself."""
        wanted = *self.removals, *self.held
        if not wanted:
            return self
        limit = min((hold.physical_offset for hold in holds), default=wanted[-1].end_offset)
        going = tuple(each for each in wanted if each.end_offset <= limit)
        held = wanted[len(going) :]
        low = going[-1].end_offset if going else wanted[0].base_offset
        return attrs.evolve(
            self,
            removals=going,
            held=held,
            holds=_holding(holds, held),
            min_physical_offset=low,
        )

    def report(self, config: RetentionConfig) -> dict[str, Any]:
        """Return this plan and the ``config`` that it was made for, JSON-like."""
        return {
            "is_active": config.is_active,
            "config": attrs.asdict(config),
            "due_count": len(self.removals),
            "due_size": self.freed_size,
            "held_count": len(self.held),
            "held_size": self.held_size,
            "holds": [attrs.asdict(hold) for hold in self.holds],
            "is_disk_full": self.is_disk_full,
            "used_percent": self.used_percent,
        }


@attrs.frozen
class ExpiryReport:
    """What `expire_log` did, or would do."""

    is_dry_run: bool
    plan: CleanPlan
    """What was decided."""
    removed: tuple[Removal, ...] = ()
    """Files that were removed; none in a dry run."""
    min_physical_offset: int = 0
    """Where the log begins now."""
    not_notified: tuple[str, ...] = ()
    """Plugins that must still be notified, as they do not run or did not answer."""

    @property
    def removed_size(self) -> int:
        """Bytes of the files that were removed."""
        return sum(each.size for each in self.removed)

    @property
    def is_complete(self) -> bool:
        """Whether all planned removals were made."""
        return len(self.removed) == len(self.plan.removals)


def decide(
    config: RetentionConfig,
    files: LogFiles,
    now: int,
    *,
    spaces: Sequence[Space] = (),
    at_any_hour: bool = False,
) -> CleanPlan:
    """Decide which files are to be removed at ``now``, if nobody needs them.

    Args:
        config: the options.
        files: the log's files.
        now: the time, ms.
        spaces: the store's disks; empty if the options do not depend on them.
        at_any_hour: whether to ignore ``delete_when``, as a user asks for it now.
    """
    removable = files.removable
    used_percent = max((space.percent for space in spaces), default=0)
    by_space = _count_by_space(config, files.file_size, spaces)
    is_short = 0 < percent_of(config.disk_max_ratio) < used_percent or by_space > 0
    expired: list[int] = []
    if config.reserved_ms and (at_any_hour or is_short or config.is_hour(now)):
        for base in removable:
            if now - files.last_timestamp(base) < config.reserved_ms:
                break
            expired.append(base)
    by_size = _count_by_size(config, files)
    wanted = [
        Removal(
            base,
            files.file_size,
            files.last_timestamp(base),
            AGE if place < len(expired) else SIZE if place < by_size else SPACE,
        )
        for place, base in enumerate(removable[: max(len(expired), by_size, by_space)])
    ]
    first = files.bases[0] if files.bases else 0
    return CleanPlan(
        tuple(wanted),
        min_physical_offset=wanted[-1].end_offset if wanted else first,
        is_disk_full=0 < percent_of(config.disk_warn_ratio) < used_percent,
        used_percent=used_percent,
    )


def _count_by_size(config: RetentionConfig, files: LogFiles) -> int:
    """Return how many of the oldest files exceed ``max_bytes``."""
    if not config.max_bytes:
        return 0
    return max(len(files.bases) - config.max_bytes // files.file_size, 0)


def _count_by_space(config: RetentionConfig, file_size: int, spaces: Sequence[Space]) -> int:
    """Return how many of the oldest files must be removed to make room."""
    wanted = percent_of(config.disk_warn_ratio)
    counts = [0]
    for space in spaces:
        if not 0 < wanted < space.percent:
            continue
        # On another disk than the log's, plugins make room when they are notified; how much is not
        # known before.
        missing = -(-space.excess(wanted) // file_size)
        counts.append(missing if space.holds_log else BATCH_COUNT)
    return max(counts)


def _holding(holds: Sequence[Hold], held: Sequence[Removal]) -> tuple[Hold, ...]:
    """Return the holds that keep files of ``held``, the lowest offset first."""
    if not held:
        return ()
    end = held[-1].end_offset
    found = [hold for hold in holds if hold.physical_offset < end]
    return tuple(sorted(found, key=lambda hold: (hold.physical_offset, hold.plugin)))

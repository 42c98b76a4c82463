"""Decides which files of the log go: from what is given, without looking at anything itself.

Only whole files go, the oldest first, and never the last one. What is asked for is a run of files
from the head on; who still needs the log from some place on cuts that run short.

Source: RocketMQ ``CleanCommitLogService``, ``MappedFileQueue#deleteExpiredFileByTime``. Different
on purpose: a full disk takes as many files as make the room that is missing, where RocketMQ takes
ten at a time; and who needs the head of the log is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.retention.diskspace import percent_of

if TYPE_CHECKING:
    from reput.retention.config import RetentionConfig
    from reput.retention.diskspace import Space

__all__ = [
    "AGE",
    "SIZE",
    "SPACE",
    "CleanPlan",
    "ExpiryReport",
    "Hold",
    "LogFiles",
    "Removal",
    "decide",
]

AGE: Final = "age"
SIZE: Final = "size"
SPACE: Final = "space"


@attrs.frozen
class Hold:
    """Somebody who needs the log from some place on."""

    physical_offset: int
    """Where what is needed begins."""
    plugin: str
    """Who needs it; empty for the log itself."""
    reason: str
    """Why, for people."""


@attrs.frozen
class Removal:
    """A file that goes, or would."""

    base_offset: int
    size: int
    last_timestamp: int
    """When its last message was stored, ms."""
    reason: str
    """``"age"``, ``"size"`` or ``"space"``: the first of them that asks for it."""

    @property
    def end_offset(self) -> int:
        """Physical offset behind it."""
        return self.base_offset + self.size


@attrs.frozen
class LogFiles:
    """The files of a log."""

    bases: Sequence[int]
    """Base offsets, ascending; the files lie end to end."""
    file_size: int
    needed_from: int
    """Physical offset of the last record: the file that holds it stays."""
    last_timestamp: Callable[[int], int]
    """When the last message of the file with that base was stored, ms. Asked for the oldest files
    only, as far as it matters."""

    @property
    def removable(self) -> Sequence[int]:
        """Bases of the files that may go: all but the last one, and what lies behind the end."""
        return [base for base in self.bases[:-1] if base + self.file_size <= self.needed_from]


@attrs.frozen
class CleanPlan:
    """Which files go, and what keeps the others that should."""

    removals: tuple[Removal, ...]
    """Files that go, oldest first."""
    held: tuple[Removal, ...] = ()
    """Files that would go too, if nobody needed them."""
    holds: tuple[Hold, ...] = ()
    """Who needs them, who needs the oldest place first."""
    min_physical_offset: int = 0
    """Where the log begins when the files are gone."""
    is_disk_full: bool = False
    """Whether puts are to be refused."""
    used_percent: int = 0
    """Part of the fullest disk in use; 0 where nobody asked."""

    @property
    def freed_size(self) -> int:
        """Bytes of the files that go."""
        return sum(each.size for each in self.removals)

    @property
    def held_size(self) -> int:
        """Bytes of the files that are held back."""
        return sum(each.size for each in self.held)

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


def decide(
    config: RetentionConfig,
    files: LogFiles,
    now: int,
    *,
    spaces: Sequence[Space] = (),
    holds: Sequence[Hold] = (),
    at_any_hour: bool = False,
) -> CleanPlan:
    """Decide what goes at ``now``.

    Args:
        config: what is wanted.
        files: the log's.
        now: ms.
        spaces: the disks that the store lies on; none where how full they are does not matter.
        holds: who needs the log, and from where on.
        at_any_hour: whether ``delete_when`` is not waited for: somebody asks for it now.
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
    limit = min((hold.physical_offset for hold in holds), default=files.needed_from)
    removals = tuple(each for each in wanted if each.end_offset <= limit)
    held = tuple(wanted[len(removals) :])
    first = files.bases[0] if files.bases else 0
    warn = percent_of(config.disk_warn_ratio)
    return CleanPlan(
        removals,
        held,
        _holding(holds, held),
        removals[-1].end_offset if removals else first,
        0 < warn < used_percent,
        used_percent,
    )


def _count_by_size(config: RetentionConfig, files: LogFiles) -> int:
    """How many of the oldest files are too many."""
    if not config.max_bytes:
        return 0
    return max(len(files.bases) - config.max_bytes // files.file_size, 0)


def _count_by_space(config: RetentionConfig, file_size: int, spaces: Sequence[Space]) -> int:
    """How many of the oldest files go to make room."""
    wanted = percent_of(config.wanted_ratio)
    counts = [0]
    for space in spaces:
        if not 0 < wanted < space.percent:
            continue
        # Where another disk is full the files of plugins make the room, when they are told; how
        # much that will be nobody knows.
        missing = -(-space.excess(wanted) // file_size)
        counts.append(missing if space.holds_log else config.batch_count)
    return max(counts)


def _holding(holds: Sequence[Hold], held: Sequence[Removal]) -> tuple[Hold, ...]:
    if not held:
        return ()
    end = held[-1].end_offset
    found = [hold for hold in holds if hold.physical_offset < end]
    return tuple(sorted(found, key=lambda hold: (hold.physical_offset, hold.plugin)))

"""Start positions of plugins and next queue offsets when a store opens.

What files and plugins say counts only as far as the log confirms it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.dispatch.records.manifest import Manifest
    from reput.log.config import CommitLogConfig
    from reput.log.progress import ProgressFile
    from reput.log.recovery.end import RecoveryReport
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.host.pluginset import PluginSet

logger = logging.getLogger(__name__)

__all__ = ["checked_offsets", "dispatch_limit", "known_progress"]


def known_progress(
    log: CommitLog,
    file: ProgressFile,
    clean: bool,
    recovery: RecoveryReport,
    manifest: Manifest | None,
) -> int:
    """Return the physical offset below which a plugin's files are complete and flushed."""
    recorded = file.known()  # as the search for the log's end has read it
    if not recorded:
        if manifest is not None:
            return log.min_physical_offset  # new in this store: from the beginning
        # RocketMQ wrote the store: after a close everything is dispatched; after a crash all is
        # dispatched again from the file that recovery began to read at.
        return recovery.end_offset if clean else recovery.start_offset
    believable = file.believable_of(recorded, log)
    if believable is not None:
        if log.follows or not recovery.damages:
            return believable
        # The records of the damaged range are lost: what was derived from them must go, too.
        return min(believable, recovery.damages[0].start_offset)
    if recorded[0].physical_offset > recovery.end_offset:
        return min(recovery.start_offset, recovery.end_offset)
    return log.min_physical_offset


def checked_offsets(plugins: PluginSet) -> dict[tuple[str, int], int] | None:
    """Return the queue offsets of the first plugin that has them; None if none, or not valid."""
    try:
        asked = (hook() for _, hook in plugins.having("queue_offsets"))
        answer = next((answer for answer in asked if answer is not None), None)
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        logger.error("queue offsets not known, counted instead error=%r", error)
        return None
    if answer is None:
        return None
    if not isinstance(answer, Mapping) or not all(
        isinstance(key, tuple)
        and len(key) == 2
        and isinstance(key[0], str)
        and isinstance(key[1], int)
        and isinstance(value, int)
        and value >= 0
        for key, value in answer.items()
    ):
        logger.error("queue offsets are nonsense, counted instead answer=%.200r", answer)
        return None
    return dict(answer)


def dispatch_limit(log: CommitLog, config: CommitLogConfig) -> Callable[[], int]:
    """Return a function of the offset up to which may be dispatched: appended, or on disk."""
    if config.reads_durable:
        return lambda: min(log.flushed_offset, log.max_physical_offset)
    return lambda: log.max_physical_offset

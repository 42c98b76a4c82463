"""Where things stand when a store opens: how far plugins are, and what queues go on with.

What files and plugins say is believed only as far as the log bears it out.
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
    """Physical offset below which a plugin's files are known to be complete and flushed."""
    progress = file.load()
    if progress is None:
        if manifest is not None:
            return log.min_physical_offset  # new in this store: from the beginning
        # RocketMQ wrote it: a closed store is dispatched to its end; after a crash everything is
        # dispatched again from the file that the checkpoint vouches for.
        return recovery.end_offset if clean else recovery.start_offset
    believable = file.believable(log)
    if believable is not None:
        if log.follows or not recovery.holes:
            return believable
        # The records that were there are gone: what was derived from them goes, too.
        return min(believable, recovery.holes[0].start_offset)
    if progress.physical_offset > recovery.end_offset:
        return min(recovery.start_offset, recovery.end_offset)
    return log.min_physical_offset


def checked_offsets(plugins: PluginSet) -> dict[tuple[str, int], int] | None:
    """What the first plugin that knows says of queue offsets; None where that is no answer."""
    try:
        asked = (hook() for _, hook in plugins.having(lambda hooks: hooks.queue_offsets))
        answer = next((answer for answer in asked if answer is not None), None)
    except (Exception, SystemExit) as error:  # whatever a plugin raises
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
    """How far messages may be dispatched: as far as they are written, or are on disk."""
    if config.reads_durable:
        return lambda: min(log.flushed_offset, log.max_physical_offset)
    return lambda: log.max_physical_offset

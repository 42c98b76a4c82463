"""Publish a write, or undo it: what the driver does when tasks are done, or have failed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import reput
from reput.errors import CorruptFileError, ReputError, UnsafePathError
from reput.files import Disk
from reput_export.errors import CodedError
from reput_export.writing.directories import forget, path_of
from reput_export.writing.options import WriteOptions
from reput_export.writing.publish.intents import Intent
from reput_export.writing.publish.publishing import Published, publish
from reput_export.writing.publish.settling import take_back
from reput_export.writing.staging.values import TaskWritten, WritePlan
from reput_rebuild.engine import LocalEngine

if TYPE_CHECKING:
    from reput_rebuild.engine import Engine

logger = logging.getLogger(__name__)

__all__ = [
    "abort_write",
    "commit_write",
    "engine_for",
    "intent_of",
    "publish_write",
    "size_of",
    "staged_intent",
]

_PLAN: Final = "plan.json"
_WORTH_A_PROCESS: Final = 256 << 20
"""Bytes of log files; fewer are numbered before another process has begun."""


def commit_write(plan: WritePlan, tasks: Iterable[TaskWritten]) -> None:
    """Publish what the tasks have written; on the driver, when all of them are done.

    Raises:
        CodedError: the store cannot be written any more.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    written = list(tasks)
    if plan.options.staged is not None:
        _leave_to_others(plan, written)
        return
    intent = intent_of(plan, written)
    size = size_of(intent)
    jobs = plan.options.jobs or min(os.cpu_count() or 1, 1 + size // _WORTH_A_PROCESS)
    with LocalEngine(jobs) as engine:
        publish_write(plan.root, intent, engine, plan.options, overwrite=plan.overwrite)


def abort_write(plan: WritePlan) -> None:
    """Leave nothing of a write that failed, unless part of it is published."""
    disk = _disk_of(plan)
    if take_back(plan.root, plan.staging, disk):
        forget(plan.root, plan.staging, disk, with_root=plan.made_root)


def intent_of(plan: WritePlan, written: Sequence[TaskWritten]) -> Intent:
    """Return the intent to publish what tasks have written."""
    name = plan.options.write_id or plan.staging
    return Intent(name, plan.staging, plan.file_size, plan.record_crc, tuple(written))


def publish_write(
    root: str,
    intent: Intent,
    engine: Engine,
    options: WriteOptions,
    told: Callable[[int], None] = lambda size: None,
    *,
    overwrite: bool = False,
) -> Published:
    """Publish a write, and have the store's plugins see it.

    Raises:
        CodedError: the store cannot be written any more, a staged file is gone or was changed,
            or the disk failed.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    follow_links = options.follow_links
    try:
        done = publish(
            root, intent, engine, overwrite=overwrite, follow_links=follow_links, told=told
        )
    except UnsafePathError:
        raise
    except (CorruptFileError, OSError) as error:
        code = "DAMAGED" if isinstance(error, CorruptFileError) else "JOB"
        raise CodedError(code, f"{root}: {error}") from error
    if options.dispatch:
        try:
            with reput.open(root, "w", follow_links=follow_links) as store:
                store.wait_dispatched()
        except (ReputError, OSError) as error:
            # All is in the log, and the next one to open the store dispatches it. To fail here
            # would have the caller write it once more.
            logger.warning("published, not dispatched root=%s error=%s", root, error)
    return done


def _leave_to_others(plan: WritePlan, written: Sequence[TaskWritten]) -> None:
    path = os.path.join(path_of(plan.root, plan.staging), _PLAN)
    intent_of(plan, written).save_to(path, _disk_of(plan))


def _disk_of(plan: WritePlan) -> Disk:
    return Disk().at(plan.root, follow_links=plan.options.follow_links)


def staged_intent(root: str, staging: str, disk: Disk) -> Intent:
    """Return the intent of a write that was staged for `reput_spark.write` to publish."""
    return Intent.load_from(os.path.join(path_of(root, staging), _PLAN), disk)


def size_of(intent: Intent) -> int:
    """Return the bytes of all records of a write."""
    return sum(segment.used_size for task in intent.tasks for segment in task.segments)


def engine_for(size: int, other: Engine) -> Engine:
    """Return what numbers files of ``size`` bytes: this process, where others do not pay."""
    return LocalEngine(1) if size < _WORTH_A_PROCESS else other

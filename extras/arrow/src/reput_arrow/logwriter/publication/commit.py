"""Publish a write, or undo it: what the driver does when tasks are done, or have failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import reput
from reput.errors import CorruptFileError, ReputError, UnsafePathError
from reput.files import Disk
from reput_arrow.codederrors import CodedError
from reput_arrow.logwriter.publication.journal import Intent
from reput_arrow.logwriter.publication.publish import Published, publish
from reput_arrow.logwriter.publication.recovery import take_back
from reput_arrow.logwriter.staging.writetasks import TaskWritten, WritePlan
from reput_arrow.logwriter.stagingdirectories import forget
from reput_arrow.logwriter.writeoptions import WriteOptions
from reput_tools.offline import LocalEngine

if TYPE_CHECKING:
    from reput_tools.offline import Engine

logger = logging.getLogger(__name__)


def commit_write(plan: WritePlan, tasks: Iterable[TaskWritten]) -> None:
    """Publish what the tasks have written; on the driver, when all of them are done.

    Raises:
        CodedError: the store cannot be written any more.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    with LocalEngine(1) as engine:
        intent = intent_of(plan, list(tasks))
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
            root,
            intent,
            engine,
            overwrite=overwrite,
            small=options.has_small_files,
            follow_links=follow_links,
            told=told,
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


def _disk_of(plan: WritePlan) -> Disk:
    return Disk().at(plan.root, follow_links=plan.options.follow_links)

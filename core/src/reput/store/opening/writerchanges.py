"""A writer's changes before it opens the log: `abort`, directories, the manifest, the log's end."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from reput.dispatch.statefiles.manifest import Manifest
from reput.files.filenames import OWN_DIRECTORY
from reput.files.mappedfile import FIRST_SIZE
from reput.files.preallocation import FileAllocator
from reput.log.reader.ledgerfiles import LedgerFiles
from reput.log.recovery.repair import Reflush, repair
from reput.store.opening.logstages import LogFindings

if TYPE_CHECKING:
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.reader.batchreader import CheckedRanges
    from reput.store.opening.rollback import Rollback
    from reput.store.opening.stages import LockedStore, OpenRequest, Settings

logger = logging.getLogger(__name__)

__all__ = ["WriterStarted", "begin_changes", "repair_log"]


@attrs.frozen(eq=False)
class WriterStarted:
    """State of a writer's opening after its first changes."""

    allocator: FileAllocator
    take_back: Callable[[], None]
    """Undoes these changes, as long as nothing else was changed."""


def begin_changes(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    files: MappedFileQueue,
    undoing: Rollback,
) -> WriterStarted:
    """Write ``abort`` and the manifest, and make the store's directories."""
    disk, abort, own = request.disk, locked.note.abort, request.path(OWN_DIRECTORY)
    is_new = not abort.present
    # Where a kill leaves half of a file: before "abort" is written, or after it was removed, when
    # plugins close. Not in "requests", as other processes write there at any time.
    disk.finish_replacing(request.root, "abort", "checkpoint", flush=False)
    disk.finish_replacing(own, flush=False)
    if not is_new:
        disk.finish_replacing(os.path.join(own, "lost+found"))
    if locked.manifest is None:
        disk.make_directory(own)
    if not files.bases:
        disk.make_directory(files.directory)
    if locked.manifest is None or not is_new:
        # The previous writer may have been killed before these names, or the names of files that
        # it replaced, were on disk. Everything from here on rests on them.
        for directory in (request.root, own, files.directory):
            disk.flush_directory(directory)
        with contextlib.suppress(PermissionError):  # another user's directory, which existed before
            request.outer.flush_directory(os.path.dirname(request.root))

    def take_back() -> None:
        try:
            if is_new and abort.present:
                abort.remove()
        except OSError as error:
            # The file stays, and the next opening recovers. The first error is the one to raise.
            logger.warning("could not remove file=%s error=%s", abort.path, error)

    undoing.when_failed(take_back)
    if is_new or abort.left_on_purpose:
        abort.create()
    names = tuple(sorted(settings.plugins.plugins))
    fresh = Manifest(names, settings.sections, settings.master)
    if fresh != locked.manifest:
        undoing.forget(take_back)  # if this fails, its name may not be on disk: no proper close
        fresh.save(request.root, disk)
        undoing.when_failed(take_back)
    size = files.file_size
    ahead = size >= settings.log.made_ahead_from
    made_size = min(size, FIRST_SIZE) if files.grows else size
    allocator = FileAllocator(own, made_size, disk, ahead=ahead)
    undoing.in_any_case(allocator.close)
    allocator.discard_leftovers()
    return WriterStarted(allocator, take_back)


def repair_log(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
    undoing: Rollback,
) -> LogFindings:
    """Cut the log at the end that was found, and note what it is.

    Returns:
        What is known of the log now, and what brings it to disk up to its end.
    """
    report = repair(
        found.log,
        found.report,
        found.ledger,
        request.root,
        request.disk,
        config=settings.log,
        clean=locked.clean,
        is_replica=settings.master is not None,
    )
    if not locked.clean:
        offsets = report.start_offset, report.end_offset
        reflush = Reflush.of(found.log, *offsets, request.disk)
        undoing.when_failed(reflush.stop)
        if _may_flush_later(request, locked, settings):
            reflush.start()
            found = attrs.evolve(found, reflush=reflush)
        else:
            reflush.wait()
    files = found.log.files
    if settings.master is not None and files.bases and report.end_offset == files.min_offset:
        # No record was fed into the first file: the log may begin with another one.
        files.truncate(files.min_offset - 1)
        report = attrs.evolve(report, start_offset=0, end_offset=0)
    found = attrs.evolve(found, report=report)
    if found.last_entry is not None and isinstance(files, LedgerFiles):
        if report.known is None:
            record, end = report.last_record_offset, found.last_entry.end
            locked.note.begin(record, files.read(record, end - record))
        files.note_no_more(found.last_entry.number)
    return attrs.evolve(found, checked=_note_log(request, locked, settings, found))


def _may_flush_later(request: OpenRequest, locked: LockedStore, settings: Settings) -> bool:
    """Whether nothing but plugins that catch up comes before the store is complete.

    What they derive is not noted before that, so that the log may be on disk after it. Not after a
    broker: the lock says from now on that reput has written last.
    """
    is_plain = settings.master is None and locked.ledger is None and locked.lock.is_signed
    return request.threads and is_plain and not settings.log.reads_durable


def _note_log(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    found: LogFindings,
) -> CheckedRanges:
    """Note what the log's bytes do not say: where it begins, where checksums are.

    What nobody has trimmed is noted as a loss. The order of the steps, with the reasons: the
    ledger has the loss before the note hides it, and both notes are right before the lock's letters
    make them count.

    Returns:
        Ranges in which each record has a checksum, also records that are put from now on.
    """
    checked = found.checked.until(found.report.end_offset)
    if settings.log.record_crc and settings.master is None:
        checked = checked.from_on(found.report.end_offset)
    locked.checked.save(checked)
    files = found.log.files
    lost = locked.lost_head(files)
    if lost is not None:
        logger.error(
            "oldest log files are missing noted=%d found=%d; no retention removed them",
            lost.start_offset,
            lost.end_offset,
        )
        found.ledger.note(lost)
    locked.head.note(files.min_offset)
    locked.lock.sign()
    return checked

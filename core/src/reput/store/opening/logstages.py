"""The stages of opening a log: its files, its end, and what may be read of it; they change nothing.

They follow those of `reput.store.opening.stages`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import ConfigError, NotReplicaError
from reput.files.filepool import FilePool
from reput.log.config import LOG_SECTION
from reput.log.losses import Loss, LossLedger
from reput.log.progress import ProgressEntry
from reput.log.reader.batchreader import CheckedRanges
from reput.log.reader.ledgerfiles import LedgerFiles, log_files
from reput.log.reader.logend import Tail, Writer
from reput.log.reader.logreader import LogReader, StoreLog, check_names
from reput.log.recovery.checkpoint import Checkpoint
from reput.log.recovery.endsearch import RecoveryReport, entry_before_end, find_end
from reput.store.config import with_file_size

if TYPE_CHECKING:
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.recovery.repair import Reflush
    from reput.record.entries import LastEntry
    from reput.store.opening.stages import LockedStore, OpenRequest, Settings

logger = logging.getLogger(__name__)

_LOG_FILES_OPEN: Final = 64


@attrs.frozen(eq=False)
class LogFindings:
    """What the store's files say."""

    log: LogReader
    """Reads the log while its end is not set."""
    report: RecoveryReport
    ledger: LossLedger
    places: dict[str, ProgressEntry]
    """Progress file of each plugin that dispatches."""
    checked: CheckedRanges
    """Ranges in which each record has a checksum of its own."""
    last_entry: LastEntry | None = None
    """Of a log to which a writer appends entries; else None."""
    reflush: Reflush | None = None
    """Brings the log to disk while plugins catch up; None if it is there."""

    def start_flush(self) -> None:
        """Begin to bring the log to disk beside other work."""
        if self.reflush is not None:
            self.reflush.start()

    def wait_flushed(self) -> None:
        """Return when the log is on disk up to the end that was found.

        Raises:
            OSError: it may not be on disk.
        """
        if self.reflush is not None:
            self.reflush.wait()


def find_files(
    request: OpenRequest, locked: LockedStore, settings: Settings
) -> tuple[MappedFileQueue, Settings]:
    """List the log's files.

    Returns:
        The files, and the settings with the files' size.

    Raises:
        ConfigError: the option ``file_size`` contradicts the files.
        CorruptFileError: the files do not belong to a log.
        NotReplicaError: the log is to be a replica's, and holds messages that are not a master's.
    """
    pool = FilePool(request.disk, _LOG_FILES_OPEN)
    request.undoing.in_any_case.append(pool.close)
    if locked.manifest is None:
        # Its files may be those of a store whose manifest was lost: 0 for the files' own size.
        given = request.sections.get(LOG_SECTION, {})
        size, grew = given.get("file_size", 0) if settings.log.grows else 0, settings.log.grows
    else:
        recorded = locked.manifest.config.get(LOG_SECTION, {})
        size, grew = recorded.get("file_size", 0), recorded.get("grows") is True
    ledger = () if locked.ledger is None else (locked.ledger,)
    if ledger and request.writable:
        grew = False
        if settings.log.record_crc:
            reason = "entries of DLedger have no checksum of the whole record; leave the option out"
            raise ConfigError(LOG_SECTION, "record_crc", reason)
    maps_to_read = request.writable and request.disk.reads_plainly
    files = log_files(request.root, size, request.disk, pool, ledger, maps_to_read, grew)
    durable_end = 0
    if grew:
        durable_end = locked.problems.read_or_report(lambda: _durable_end(locked), 0)
    files.load(writable=request.writable, damaged=locked.problems.reporter, durable_end=durable_end)
    if not files.bases:
        size = settings.log.file_size
        files = log_files(request.root, size, request.disk, pool, ledger, maps_to_read, grew)
    if request.writable and grew != settings.log.grows:
        logger.warning(
            "option not followed, a store keeps its sizes option=grows asked=%s; `reput fill` "
            "gives files their full size",
            settings.log.grows,
        )
    if request.master is not None and (locked.manifest is None or locked.manifest.master is None):
        _require_empty(request, files)
    config = with_file_size(settings.log, files, request.sections)
    if grew != config.grows:
        config = attrs.evolve(config, grows=grew)
    check_names(files)
    remembered = {**settings.sections.get(LOG_SECTION, {}), "file_size": config.file_size}
    if "grows" in remembered:
        remembered["grows"] = grew
    sections = {**settings.sections, LOG_SECTION: remembered}
    return files, attrs.evolve(settings, log=config, sections=sections)


def _durable_end(locked: LockedStore) -> int:
    """Return the offset below which the log was on disk, as the last writer has recorded it."""
    place = next(iter(locked.note.file.known()), None)
    return 0 if place is None else place.physical_offset


def _require_empty(request: OpenRequest, files: MappedFileQueue) -> None:
    if any(files.last_used(base, base + files.file_size) > base for base in files.bases):
        raise NotReplicaError(
            request.root,
            f"the store has messages of its own, so it cannot become a replica of {request.master}"
            "; name a new or an empty directory, or open this one without master=",
        )


def examine(
    request: OpenRequest, locked: LockedStore, settings: Settings, files: MappedFileQueue
) -> LogFindings:
    """Find the log's end, and what it has lost, by reading only."""
    root, disk, problems = request.root, request.disk, locked.problems
    checkpoint = problems.read_or_report(lambda: locked.note.checkpoint, Checkpoint())
    places = {
        name: ProgressEntry(locked.note.state, name)
        for name, hooks in settings.plugins.hooks.items()
        if hooks.dispatch is not None
    }
    ledger = LossLedger(locked.note.state, request.now)
    ledger.load(writable=request.writable)
    if not request.writable:
        problems.look_for_damage(root, disk, locked.note.state)
        lost = problems.read_or_report(lambda: locked.lost_head(files), None)
        if lost is not None and ledger.note(lost):
            problems.report(
                f"the log begins at {lost.end_offset} instead of {lost.start_offset}: {lost.detail}"
            )
    is_replica = settings.master is not None
    keeps = settings.log.recovery == "reput" or is_replica
    checked = locked.checked.load(reput_wrote_last=locked.was_signed)
    log = LogReader(
        files,
        settings.log.window_size,
        ledger=ledger,
        keeps_records_after_damage=keeps,
        checked=checked,
    )
    flushed = (locked.note.file, *places.values()) if keeps else ()
    if locked.ledger is not None:
        # A broker does not clear what it cuts: a record of ours may stand after the log's end.
        flushed = (locked.note.file,) if locked.lock.is_signed else ()
    report = find_end(
        log,
        checkpoint,
        locked.closed,
        clean=locked.clean,
        progress=request.progress,
        # Below each of these offsets reput had flushed the log.
        flushed=[place for file in flushed for place in file.known()],
        being_written=not request.writable and not locked.clean and locked.lock.is_taken(),
        # Entries are numbered, so that a writer fills no damage.
        is_replica=is_replica
        or (
            locked.ledger is not None
            and (request.writable or (locked.lock.is_signed and not locked.clean))
        ),
    )
    if not isinstance(files, LedgerFiles):
        return LogFindings(log, report, ledger, places, checked)
    last_entry = None
    if request.writable:
        signed = locked.lock.is_signed
        last_entry = entry_before_end(
            log, files, report, clean=locked.clean, reput_wrote_last=signed
        )
        if not signed:
            logger.warning(
                "entries are appended to a log of DLedger; its group must have one node, which the "
                "directory cannot show: other nodes would not have them root=%s",
                root,
            )
    elif locked.closed is None and (beyond := files.beyond(report.end_offset)):
        problems.report(beyond)
    return LogFindings(log, report, ledger, places, checked, last_entry)


def open_log(
    request: OpenRequest,
    locked: LockedStore,
    settings: Settings,
    files: MappedFileQueue,
    found: LogFindings,
) -> StoreLog:
    """Open the log of a read-only store, with the end that was found."""
    report = found.report
    for damage in report.damages:
        found.ledger.note(Loss.of(damage))
    log = StoreLog(
        files,
        settings.log,
        end=report.log_end,
        ledger=found.ledger,
        damages=report.damages,
        tail=Tail(files, locked.lock.writer, request.disk),
        # What another process appends from now on may be without checksums.
        checked=found.checked.until(report.end_offset),
        master=settings.master,
    )
    if locked.lock.writer() is Writer.OTHER:
        log.settle(report.last_record_offset)
    return log

"""The entry after which a writer goes on in a log that DLedger keeps.

Entries have consecutive indexes, so that damage cannot be filled as in a plain log: the log ends at
the first damage. After a crash of reput nothing was flushed of what follows the place that reput
noted last, when it flushed or opened the log. Elsewhere a log may be damaged without a crash, so
that sound entries after the damage are not cut here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.errors import CorruptFileError

if TYPE_CHECKING:
    from reput.log.reader.ledgerfiles import LedgerFiles
    from reput.log.reader.logreader import LogReader
    from reput.log.recovery.endsearch import RecoveryReport
    from reput.record.entries import LastEntry

__all__ = ["entry_before_end"]

_FOLLOWED = (
    "sound entries follow damage, and are not cut off; write with the broker, or make a plain "
    "store by `reput convert`, which keeps them"
)
_ELSEWHERE = (
    "DLedger's index has later entries, in files that are not in this directory "
    "(storePathDLedgerCommitLog?); write with the broker"
)
_EMPTY = "no sound entry is where the log's end was looked for; write with the broker"


def entry_before_end(
    log: LogReader,
    files: LedgerFiles,
    report: RecoveryReport,
    *,
    clean: bool,
    reput_wrote_last: bool,
) -> LastEntry:
    """Return the last entry of the log.

    Args:
        log: the log.
        files: its files.
        report: where it ends.
        clean: whether the last writer closed the log.
        reput_wrote_last: whether no other program has opened the store for writing since: reput
            leaves the units of entries that it cuts.

    Raises:
        CorruptFileError: entries follow the end, or none is before it.
    """
    last, at, finding = files.entry_of(report.last_record_offset), report.end_offset, report.finding
    if last is None:
        raise CorruptFileError(*log.path_of(at), _EMPTY)
    if not reput_wrote_last and files.has_later(last.number):
        raise CorruptFileError(*log.path_of(at), _ELSEWHERE)
    nothing_follows = clean and finding is None
    # After a place that reput had flushed last, all that it appended was not flushed.
    if nothing_follows or report.known is not None:
        return last
    if log.finder().damages_at(at, finding, after=report.last_store_timestamp):
        raise CorruptFileError(*log.path_of(at), _FOLLOWED)
    return last

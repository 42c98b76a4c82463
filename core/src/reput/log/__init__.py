"""The commit log: records in files, one after the other; read, written, recovered.

This package keeps the log correct, also after a crash. It must not know the log's users: no plugin,
no hook, no store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput.log.config import LOG_SECTION as LOG_SECTION
    from reput.log.config import CommitLogConfig as CommitLogConfig
    from reput.log.damage import CUT as CUT
    from reput.log.damage import FILLED as FILLED
    from reput.log.damage import GONE as GONE
    from reput.log.damage import SKIPPED as SKIPPED
    from reput.log.damage import Damage as Damage
    from reput.log.damage import Loss as Loss
    from reput.log.losses import LossLedger as LossLedger
    from reput.log.progress import Progress as Progress
    from reput.log.progress import ProgressFile as ProgressFile
    from reput.log.progress import fingerprint_of as fingerprint_of
    from reput.log.reading.beside import LogEnd as LogEnd
    from reput.log.reading.beside import Tail as Tail
    from reput.log.reading.beside import Writer as Writer
    from reput.log.reading.reader import LogReader as LogReader
    from reput.log.reading.view import LogView as LogView
    from reput.log.reading.walk import Onward as Onward
    from reput.log.reading.walk import Walk as Walk
    from reput.log.reading.windows import CheckedRanges as CheckedRanges
    from reput.log.recovery.brokernotes import Checkpoint as Checkpoint
    from reput.log.recovery.notes import CheckedNote as CheckedNote
    from reput.log.recovery.notes import LogHead as LogHead
    from reput.log.recovery.notes import LogNote as LogNote
    from reput.log.recovery.repair import fill as fill
    from reput.log.writing.queueoffsets import QueueFloors as QueueFloors
    from reput.log.writing.receipts import BatchReceipt as BatchReceipt
    from reput.log.writing.receipts import Receipt as Receipt

_HOMES = {
    "BatchReceipt": "writing.receipts",
    "CUT": "damage",
    "CheckedNote": "recovery.notes",
    "CheckedRanges": "reading.windows",
    "Checkpoint": "recovery.brokernotes",
    "CommitLogConfig": "config",
    "Damage": "damage",
    "FILLED": "damage",
    "GONE": "damage",
    "LOG_SECTION": "config",
    "LogEnd": "reading.beside",
    "LogHead": "recovery.notes",
    "LogNote": "recovery.notes",
    "LogReader": "reading.reader",
    "LogView": "reading.view",
    "Loss": "damage",
    "LossLedger": "losses",
    "Onward": "reading.walk",
    "Progress": "progress",
    "ProgressFile": "progress",
    "QueueFloors": "writing.queueoffsets",
    "Receipt": "writing.receipts",
    "SKIPPED": "damage",
    "Tail": "reading.beside",
    "Walk": "reading.walk",
    "Writer": "reading.beside",
    "fill": "recovery.repair",
    "fingerprint_of": "progress",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)

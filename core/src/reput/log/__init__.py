"""The commit log: records in files, one after the other; read, written, recovered.

This package keeps the log correct, also after a crash. It must not know the log's users: no plugin,
no hook, no store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput.log.config import LOG_SECTION as LOG_SECTION
    from reput.log.config import CommitLogConfig as CommitLogConfig
    from reput.log.config import files_grow as files_grow
    from reput.log.losses import CUT as CUT
    from reput.log.losses import FILLED as FILLED
    from reput.log.losses import GONE as GONE
    from reput.log.losses import LOSSES as LOSSES
    from reput.log.losses import SKIPPED as SKIPPED
    from reput.log.losses import Damage as Damage
    from reput.log.losses import Loss as Loss
    from reput.log.losses import LossLedger as LossLedger
    from reput.log.progress import Progress as Progress
    from reput.log.progress import ProgressEntry as ProgressEntry
    from reput.log.progress import fingerprint_of as fingerprint_of
    from reput.log.reader.batchreader import CheckedRanges as CheckedRanges
    from reput.log.reader.ledgerfiles import LedgerFiles as LedgerFiles
    from reput.log.reader.ledgerfiles import ledger_in as ledger_in
    from reput.log.reader.ledgerfiles import log_files as log_files
    from reput.log.reader.logend import LogEnd as LogEnd
    from reput.log.reader.logend import Tail as Tail
    from reput.log.reader.logend import Writer as Writer
    from reput.log.reader.logreader import LogReader as LogReader
    from reput.log.reader.logview import LogView as LogView
    from reput.log.reader.logwalk import LogWalk as LogWalk
    from reput.log.reader.logwalk import NextRecord as NextRecord
    from reput.log.recovery.checkpoint import Checkpoint as Checkpoint
    from reput.log.recovery.logstate import CheckedNote as CheckedNote
    from reput.log.recovery.logstate import LogHead as LogHead
    from reput.log.recovery.logstate import LogStateFile as LogStateFile
    from reput.log.recovery.repair import fill as fill
    from reput.log.statefile import HEAD as HEAD
    from reput.log.statefile import LOG as LOG
    from reput.log.statefile import StateFile as StateFile
    from reput.log.timeruns import CLOCK_SLACK_MS as CLOCK_SLACK_MS
    from reput.log.timeruns import TimeRun as TimeRun
    from reput.log.timeruns import TimeRuns as TimeRuns
    from reput.log.writer.flushleader import FlushRequests as FlushRequests
    from reput.log.writer.queueoffsets import QueueFloors as QueueFloors
    from reput.log.writer.receipts import BatchReceipt as BatchReceipt
    from reput.log.writer.receipts import FlushProgress as FlushProgress
    from reput.log.writer.receipts import Receipt as Receipt
else:
    __getattr__, __dir__ = lazy_exports(__name__)

"""The small files of a store beside its log, for tools that do not open the store.

Files about the end of the log are in `reput.log`. `READING` and `WAITING` are, beside `Phase`,
states of a `reput.PluginState`.
"""

from __future__ import annotations

from reput.dispatch.records.deadletters import DeadLetter as DeadLetter
from reput.dispatch.records.deadletters import DeadLetterFile as DeadLetterFile
from reput.dispatch.records.manifest import Manifest as Manifest
from reput.dispatch.records.states import RESUME as RESUME
from reput.dispatch.records.states import SUSPEND as SUSPEND
from reput.dispatch.records.states import PluginRecord as PluginRecord
from reput.dispatch.records.states import PluginRecords as PluginRecords
from reput.dispatch.running.phase import READING as READING
from reput.dispatch.running.phase import WAITING as WAITING
from reput.dispatch.running.phase import Phase as Phase
from reput.log.recovery.brokernotes import AbortFile as AbortFile
from reput.store.calls.arguments import path_argument as path_argument
from reput.store.config import decide as decide
from reput.store.marks.directory import UNFINISHED as UNFINISHED
from reput.store.marks.directory import refuse_unfinished as refuse_unfinished
from reput.store.marks.lock import StoreLock as StoreLock

__all__ = [
    "READING",
    "RESUME",
    "SUSPEND",
    "UNFINISHED",
    "WAITING",
    "AbortFile",
    "DeadLetter",
    "DeadLetterFile",
    "Manifest",
    "Phase",
    "PluginRecord",
    "PluginRecords",
    "StoreLock",
    "decide",
    "path_argument",
    "refuse_unfinished",
]

"""Stores that are not open: looked at without a lock, or held by it and changed.

A store is changed here only under its lock, and in an order that a crash may end after any step.
"""

from __future__ import annotations

from reput.dispatch.phase import READING as READING
from reput.dispatch.phase import WAITING as WAITING
from reput.dispatch.phase import Phase as Phase
from reput.dispatch.records.deadletters import DeadLetter as DeadLetter
from reput.dispatch.records.manifest import Manifest as Manifest
from reput.dispatch.records.states import RESUME as RESUME
from reput.dispatch.records.states import SUSPEND as SUSPEND
from reput.dispatch.records.states import PluginRecord as PluginRecord
from reput.store.offline import ClosedStore as ClosedStore
from reput.store.offline import hold as hold
from reput.store.traces import Traces as Traces
from reput.store.traces import look as look

__all__ = [
    "READING",
    "RESUME",
    "SUSPEND",
    "WAITING",
    "ClosedStore",
    "DeadLetter",
    "Manifest",
    "Phase",
    "PluginRecord",
    "Traces",
    "hold",
    "look",
]

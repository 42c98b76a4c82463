"""Inspect a store without opening it, or change it while holding its lock.

`look` takes no lock. `hold` takes it; every change is made in an order that a crash may interrupt
after any step. `READING` and `WAITING` are, beside `Phase`, states of a `reput.PluginState`.
"""

from __future__ import annotations

from reput.dispatch.records.deadletters import DeadLetter as DeadLetter
from reput.dispatch.records.manifest import Manifest as Manifest
from reput.dispatch.records.states import RESUME as RESUME
from reput.dispatch.records.states import SUSPEND as SUSPEND
from reput.dispatch.records.states import PluginRecord as PluginRecord
from reput.dispatch.running.phase import READING as READING
from reput.dispatch.running.phase import WAITING as WAITING
from reput.dispatch.running.phase import Phase as Phase
from reput.store.marks.committed import Committed as Committed
from reput.store.marks.committed import read_consumer_offsets as read_consumer_offsets
from reput.store.marks.committed import read_delay_offsets as read_delay_offsets
from reput.store.marks.traces import Traces as Traces
from reput.store.marks.traces import look as look
from reput.store.marks.unfinished import UNFINISHED as UNFINISHED
from reput.store.marks.unfinished import refuse_unfinished as refuse_unfinished
from reput.store.offline import ClosedStore as ClosedStore
from reput.store.offline import hold as hold

__all__ = [
    "READING",
    "RESUME",
    "SUSPEND",
    "UNFINISHED",
    "WAITING",
    "ClosedStore",
    "Committed",
    "DeadLetter",
    "Manifest",
    "Phase",
    "PluginRecord",
    "Traces",
    "hold",
    "look",
    "read_consumer_offsets",
    "read_delay_offsets",
    "refuse_unfinished",
]

"""`PluginRunner`: one plugin in the reput loop: its place in the log, its state, its figures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from reput.dispatch.calls import Call
    from reput.dispatch.lane import Lane
    from reput.record.batch import DispatchBatch

__all__ = [
    "HALTED",
    "READING",
    "RETRYING",
    "RUNNING",
    "STALLED",
    "SUSPENDED",
    "WAITING",
    "PluginFigures",
    "PluginRunner",
    "PluginState",
]

RUNNING: Final = "running"
"""Gets messages, or has seen all of them."""
RETRYING: Final = "retrying"
"""Failed, and is tried again after a pause."""
STALLED: Final = "stalled"
"""Has not returned from a call for longer than ``dispatch.stall_ms``."""
WAITING: Final = "waiting"
"""A plugin that it requires is not running."""
SUSPENDED: Final = "suspended"
"""Gets nothing until it is resumed; keeps its place."""
HALTED: Final = "halted"
"""It failed, or another one did, whose policy is to stop all dispatching."""
READING: Final = "reading"
"""Part of a read-only store, where nothing is dispatched."""

_RECENT_COUNT = 5
_LONG_BATCH = 0.05  # seconds
_SHORT_BATCH = 0.005  # seconds; what is done by then holds up nobody
_LONG_MESSAGE = 2e-6  # seconds; batches worked on by columns take a quarter of it


@attrs.frozen(kw_only=True)
class PluginFigures:
    """What a plugin was given since the store was opened, and how long it took."""

    batch_count: int = 0
    """Batches that it was given since the store was opened, or in a read-only store by the last
    writer."""
    message_count: int = 0
    """Messages in them."""
    mean_batch_ms: float = 0.0
    """Mean time that it took for a batch."""
    max_batch_ms: float = 0.0
    """Longest time."""
    skipped_count: int = 0
    """Messages in its dead-letter file."""

    def figures(self) -> dict[str, Any]:
        """These values by name, for another one that has them."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(PluginFigures)}


@attrs.frozen
class PluginState(PluginFigures):
    """One active plugin as ``reput plugins PATH`` shows it."""

    name: str
    version: str
    state: str
    """``"running"``, ``"retrying"``, ``"stalled"``, ``"waiting"``, ``"suspended"``, ``"halted"``;
    ``"reading"`` in a read-only store."""
    dispatched_to: int
    """Physical offset below which the plugin has seen everything."""
    lag_size: int
    """Bytes of the log that it has not seen."""
    last_error: str | None = None
    lag_count: int = 0
    """Messages that it has not seen."""
    lag_is_exact: bool = True
    """Whether they were counted; a long way behind they are estimated from their mean size."""
    policy: str = "suspend"
    """What happens when it fails: ``"suspend"``, ``"skip"`` or ``"halt"``."""


@attrs.define(eq=False)
class PluginRunner:
    """One plugin in the loop. What changes is changed by its lane, or under the loop's lock."""

    name: str
    position: int
    """Physical offset of the next message that it needs."""
    dispatch: Callable[..., Any] | None
    """Its hook; None for a plugin that derives nothing."""
    requires: frozenset[str] = frozenset()
    enriching: Call | None = None
    """The last call of its `reput_enrich`; while it is not done, no other is made."""
    lane: Lane | None = None
    """The thread that drives it."""
    last_record_offset: int = -1
    """Where the last record begins that it was given; -1 when not known."""
    store_timestamp: int = 0
    """Store time of that record, ms."""
    state: str = RUNNING
    stalled_in: str | None = None
    """The hook that has not returned, while the state is `STALLED`."""
    asked: bool = False
    """Whether somebody asked for the suspension."""
    is_leaving: bool = False
    """Whether it is suspended to be taken away only, which is not remembered."""
    is_broken: bool = False
    """Whether it could not be opened, so that no hook of it may be called."""
    cut_to: int | None = None
    """After a failed flush: its files are what was written only up to this progress."""
    last_error: str | None = None
    attempts: int = 0
    """Failures since the last batch that went well."""
    retry_at: float = 0.0
    """When to try again, in seconds of the loop's clock."""
    skipped_count: int = 0
    skipped_in_a_row: int = 0
    batch_count: int = 0
    message_count: int = 0
    total_seconds: float = 0.0
    max_seconds: float = 0.0
    recent_slow: deque[bool] = attrs.field(factory=lambda: deque(maxlen=_RECENT_COUNT))
    """Whether the last batches took it long."""
    recent_blocked: deque[float] = attrs.field(factory=lambda: deque(maxlen=_RECENT_COUNT))
    """Seconds of them in which the processor did something else: the plugin slept or waited."""

    @property
    def wants_messages(self) -> bool:
        """Whether it is given messages, now or after a pause."""
        return self.dispatch is not None and self.state in (RUNNING, RETRYING)

    @property
    def is_stopped(self) -> bool:
        """Whether only resuming it gives it messages again."""
        return self.state in (SUSPENDED, HALTED)

    def advance(self, start: int, end: int) -> None:
        """Pass over the log from ``start`` to ``end``, where no record is.

        Nothing happens where somebody has moved it meanwhile. Call it under the loop's lock.
        """
        if self.position == start:
            self.position = end

    def passed(self, batch: DispatchBatch, seconds: float, processor_seconds: float) -> None:
        """Take note of a batch that it has dispatched."""
        if len(batch):
            self.last_record_offset = batch.base_offset + int(batch.start[-1])
            self.store_timestamp = int(batch.store_timestamp[-1])
        self.batch_count += 1
        self.message_count += len(batch)
        self.total_seconds += seconds
        if seconds > self.max_seconds:
            self.max_seconds = seconds
        self.recent_slow.append(
            seconds > _LONG_BATCH
            or (seconds > _SHORT_BATCH and seconds > len(batch) * _LONG_MESSAGE)
        )
        self.recent_blocked.append(max(seconds - processor_seconds, 0.0))
        self.attempts = 0
        self.skipped_in_a_row = 0
        # Behind everything else: whoever sees the new place may take the rest for granted.
        self.position = batch.end_offset
        if self.state == RETRYING or (
            self.state == STALLED and self.stalled_in == "reput_dispatch"
        ):
            self.state, self.stalled_in = RUNNING, None

    def figures(self) -> dict[str, Any]:
        """The values of `PluginFigures` by name, times to the microsecond."""
        mean = self.total_seconds / self.batch_count if self.batch_count else 0.0
        return PluginFigures(
            batch_count=self.batch_count,
            message_count=self.message_count,
            mean_batch_ms=round(mean * 1_000, 3),
            max_batch_ms=round(self.max_seconds * 1_000, 3),
            skipped_count=self.skipped_count,
        ).figures()

    @property
    def blocks(self) -> bool:
        """Whether it waits for something in every batch, so that it should not hold up others."""
        return len(self.recent_blocked) == _RECENT_COUNT and min(self.recent_blocked) > 0.002

    @property
    def works_long(self) -> bool:
        """Whether every batch takes it so long that others would be late."""
        return len(self.recent_slow) == _RECENT_COUNT and all(self.recent_slow)

    @property
    def is_quick(self) -> bool:
        """Whether no batch of the last ones would have made others late."""
        quick = len(self.recent_slow) == _RECENT_COUNT and not any(self.recent_slow)
        return quick and not self.blocks

    def forget_times(self) -> None:
        """Judge its speed anew, by the batches to come."""
        self.recent_slow.clear()
        self.recent_blocked.clear()

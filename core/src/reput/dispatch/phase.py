"""What a plugin is doing: in a word, in figures, and as others are shown it."""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from reput.record.batch import DispatchBatch

__all__ = [
    "READING",
    "WAITING",
    "Figures",
    "Phase",
    "Place",
    "PluginFigures",
    "PluginState",
    "Stopped",
]


class Phase(enum.StrEnum):
    """What a plugin of an open store is doing; the values are shown, and written to disk."""

    RUNNING = "running"
    """Gets messages, or has seen all of them."""
    RETRYING = "retrying"
    """Failed, and is tried again after a pause."""
    STALLED = "stalled"
    """Has not returned from a call for longer than ``dispatch.stall_ms``."""
    SUSPENDED = "suspended"
    """Gets nothing until it is resumed; keeps its place."""
    HALTED = "halted"
    """It failed, and its policy is to stop all dispatching."""
    BROKEN = "broken"
    """It could not be opened, so that no hook of it may be called until it is resumed."""

    @property
    def shown(self) -> str:
        """The word for users and for notes, which know a broken plugin as a suspended one."""
        return (Phase.SUSPENDED if self is Phase.BROKEN else self).value


class Stopped(enum.Enum):
    """Who stopped a plugin."""

    BY_USER = enum.auto()
    """Asked for, and so remembered when the store is closed."""
    FOR_REMOVAL = enum.auto()
    """To be taken away only, which is not remembered."""
    BY_FAILURE = enum.auto()
    """It failed, or could not be opened."""


@attrs.frozen
class Place:
    """How far in the log a plugin is."""

    position: int
    """Physical offset of the next message that it needs."""
    record_offset: int = -1
    """Where the last record begins that it was given; -1 when not known."""
    store_timestamp: int = 0
    """Store time of that record, ms."""


WAITING: Final = "waiting"
"""Shown of a plugin whose phase is running, while one that it requires does not run."""
READING: Final = "reading"
"""Shown of a plugin in a read-only store, where nothing is dispatched."""

_RECENT_COUNT = 5
_LONG_BATCH = 0.05  # seconds
_SHORT_BATCH = 0.005  # seconds; a batch done by then delays no other plugin
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
    """Whether they were counted; where the lag is long they are estimated from their mean size."""
    policy: str = "suspend"
    """What happens when it fails: ``"suspend"``, ``"skip"`` or ``"halt"``."""


@attrs.define(eq=False)
class Figures:
    """What a plugin was given until now, and how fast it is, judged by its last batches."""

    skipped_count: int = 0
    batch_count: int = 0
    message_count: int = 0
    total_seconds: float = 0.0
    max_seconds: float = 0.0
    _slow: deque[bool] = attrs.field(factory=lambda: deque(maxlen=_RECENT_COUNT))
    """Whether the last batches took it long."""
    _blocked: deque[float] = attrs.field(factory=lambda: deque(maxlen=_RECENT_COUNT))
    """Seconds of them in which the processor did something else: the plugin slept or waited."""

    def count(self, batch: DispatchBatch, seconds: float, processor_seconds: float) -> None:
        """Take note of a batch that was dispatched."""
        self.batch_count += 1
        self.message_count += len(batch)
        self.total_seconds += seconds
        if seconds > self.max_seconds:
            self.max_seconds = seconds
        self._slow.append(
            seconds > _LONG_BATCH
            or (seconds > _SHORT_BATCH and seconds > len(batch) * _LONG_MESSAGE)
        )
        self._blocked.append(max(seconds - processor_seconds, 0.0))

    def forget_times(self) -> None:
        """Judge the speed by the batches to come alone."""
        self._slow.clear()
        self._blocked.clear()

    @property
    def shown(self) -> PluginFigures:
        """The values for users and for notes, times to the microsecond."""
        mean = self.total_seconds / self.batch_count if self.batch_count else 0.0
        return PluginFigures(
            batch_count=self.batch_count,
            message_count=self.message_count,
            mean_batch_ms=round(mean * 1_000, 3),
            max_batch_ms=round(self.max_seconds * 1_000, 3),
            skipped_count=self.skipped_count,
        )

    @property
    def blocks(self) -> bool:
        """Whether it waits for something in every batch, so that it should not hold up others."""
        return len(self._blocked) == _RECENT_COUNT and min(self._blocked) > 0.002

    @property
    def works_long(self) -> bool:
        """Whether every batch takes it so long that others would be late."""
        return len(self._slow) == _RECENT_COUNT and all(self._slow)

    @property
    def is_slow(self) -> bool:
        """Whether it holds up others in every batch."""
        return self.blocks or self.works_long

    @property
    def is_quick(self) -> bool:
        """Whether no batch of the last ones would have made others late."""
        quick = len(self._slow) == _RECENT_COUNT and not any(self._slow)
        return quick and not self.blocks

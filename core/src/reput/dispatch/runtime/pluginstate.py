"""A plugin's phase, its place in the log, its figures, and its state as users see it.

`SharedContext` is what the plugins of one store share, and who is notified of their changes.
"""

from __future__ import annotations

import enum
import functools
import operator
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from reput.dispatch.config import DispatchConfig
from reput.signalsafe import SafeEvent

if TYPE_CHECKING:
    from reput.dispatch.runtime.hookcalls import Call, HookCalls

R = TypeVar("R")


class Phase(enum.StrEnum):
    """What a plugin of an open store is doing; users see the values, and records hold them."""

    RUNNING = "running"
    """Gets messages, or has seen all of them."""
    RETRYING = "retrying"
    """Failed, and is retried after a pause."""
    STALLED = "stalled"
    """Has not returned from a call for longer than ``dispatch.stall_ms``."""
    SUSPENDED = "suspended"
    """Gets no messages until it is resumed; keeps its place in the log."""
    HALTED = "halted"
    """Failed, and its policy is to stop all dispatching."""
    BROKEN = "broken"
    """Could not be opened: none of its hooks may be called until it is resumed."""

    @property
    def shown(self) -> str:
        """The word for users and for records, which show a broken plugin as suspended."""
        return (Phase.SUSPENDED if self is Phase.BROKEN else self).value


class Stopped(enum.Enum):
    """Why a plugin is stopped."""

    BY_USER = enum.auto()
    """On request; recorded, so that it stays stopped after the next opening."""
    FOR_REMOVAL = enum.auto()
    """Only to be removed; not recorded."""
    BY_FAILURE = enum.auto()
    """The plugin failed, or could not be opened."""


@attrs.frozen
class PluginPosition:
    """A plugin's place in the log."""

    position: int
    """Physical offset of the next message that it needs."""
    record_offset: int = -1
    """Where the last record that it was given begins; -1 if not known."""
    store_timestamp: int = 0
    """Store time of that record, ms."""


@attrs.define(eq=False, repr=False)
class Flushes:
    """The flushes of one plugin since it was opened; under the lock of `PluginFlusher`."""

    call: Call | None = None
    """The last one requested."""
    wanted: PluginPosition | None = None
    """What it has to cover; None once it has begun, and then that is in ``inside``."""
    inside: PluginPosition | None = None
    """What the one covers that has begun and whose result is not known."""
    covered: PluginPosition | None = None
    """What the last one covers that succeeded."""
    has_failed: bool = False
    """Whether one failed: none is made any more until the plugin is opened again."""

    def covers(self, place: PluginPosition) -> bool:
        """Whether the plugin's files are on disk up to ``place``."""
        return self.covered is not None and self.covered.position >= place.position


WAITING: Final = "waiting"
"""State of a running plugin while a plugin that it requires does not run."""
READING: Final = "reading"
"""State of a plugin in a read-only store, where nothing is dispatched."""

_RECENT_COUNT = 5
_RECENT = functools.partial(deque[bool], maxlen=_RECENT_COUNT)
_LONG_BATCH = 0.05  # seconds
_SHORT_BATCH = 0.005  # seconds; a batch done by then delays no other plugin
_LONG_MESSAGE = 2e-6  # seconds; plugins that work on columns take a quarter of it
_LONG_WAIT = 0.002  # seconds
_LONG_WAIT_MESSAGE = 1e-6
"""Seconds; in a large batch a plugin waits several times for the interpreter lock, which threads
that put messages have meanwhile. This takes a fifth of it."""


@attrs.frozen(kw_only=True)
class PluginFigures:
    """Figures of a plugin since the store was opened; in a read-only store, of the last writer."""

    batch_count: int = 0
    """Batches that it was given."""
    message_count: int = 0
    """Messages in them."""
    mean_batch_ms: float = 0.0
    """Mean time for a batch."""
    max_batch_ms: float = 0.0
    """Longest time for a batch."""
    skipped_count: int = 0
    """Messages in its dead-letter file."""
    total_batch_ms: float = 0.0
    """Time for all batches."""
    failure_count: int = 0
    """Calls of its hooks that failed: those that were tried again, too."""

    def figures(self) -> dict[str, Any]:
        """Return the values by name, to pass them to another class with these fields."""
        return dict(zip(_FIGURES, operator.attrgetter(*_FIGURES)(self), strict=True))


_FIGURES: Final = tuple(attrs.fields_dict(PluginFigures))


@attrs.frozen
class PluginState(PluginFigures):
    """State of one active plugin, as `reput.Store.plugins` returns it."""

    name: str
    version: str
    state: str
    """``"running"``, ``"retrying"``, ``"stalled"``, ``"waiting"``, ``"suspended"``, ``"halted"``;
    ``"reading"`` in a read-only store."""
    dispatched_to: int
    """Physical offset below which the plugin has seen all messages."""
    lag_size: int
    """Backlog: bytes of the log that it has not seen."""
    last_error: str | None = None
    lag_count: int = 0
    """Backlog: messages that it has not seen."""
    lag_is_exact: bool = True
    """Whether these were counted; for a long backlog they are estimated from the mean size."""
    policy: str = "suspend"
    """What happens when it fails: ``"suspend"``, ``"skip"`` or ``"halt"``."""


@attrs.define(eq=False, repr=False)
class LiveFigures:
    """Counts what a plugin was given, and judges its speed by its last batches."""

    skipped_count: int = 0
    batch_count: int = 0
    message_count: int = 0
    total_seconds: float = 0.0
    max_seconds: float = 0.0
    failure_count: int = 0
    _slow: deque[bool] = attrs.field(factory=_RECENT)
    """For each of the last batches, whether it took long."""
    _blocked: deque[bool] = attrs.field(factory=_RECENT)
    """For each of the last batches, whether the plugin slept or waited for long."""

    def count(self, messages: int, seconds: float, processor_seconds: float) -> None:
        """Count a batch of ``messages`` messages that was dispatched."""
        self.batch_count += 1
        self.message_count += messages
        self.total_seconds += seconds
        if seconds > self.max_seconds:
            self.max_seconds = seconds
        self._slow.append(
            seconds > _LONG_BATCH or (seconds > _SHORT_BATCH and seconds > messages * _LONG_MESSAGE)
        )
        waited = seconds - processor_seconds
        self._blocked.append(waited > _LONG_WAIT and waited > messages * _LONG_WAIT_MESSAGE)

    def forget_times(self) -> None:
        """Judge the speed only by batches from now on."""
        self._slow.clear()
        self._blocked.clear()

    @property
    def shown(self) -> PluginFigures:
        """The values for users and for records, times to the microsecond."""
        mean = self.total_seconds / self.batch_count if self.batch_count else 0.0
        return PluginFigures(
            batch_count=self.batch_count,
            message_count=self.message_count,
            mean_batch_ms=round(mean * 1_000, 3),
            max_batch_ms=round(self.max_seconds * 1_000, 3),
            skipped_count=self.skipped_count,
            total_batch_ms=round(self.total_seconds * 1_000, 3),
            failure_count=self.failure_count,
        )

    @property
    def blocks(self) -> bool:
        """Whether the plugin waited in every one of the last batches."""
        return len(self._blocked) == _RECENT_COUNT and all(self._blocked)

    @property
    def works_long(self) -> bool:
        """Whether every one of the last batches took so long that other plugins would be late."""
        return len(self._slow) == _RECENT_COUNT and all(self._slow)

    @property
    def is_slow(self) -> bool:
        """Whether the plugin holds up others in every batch."""
        return self.blocks or self.works_long

    @property
    def is_quick(self) -> bool:
        """Whether none of the last batches would have made other plugins late."""
        quick = len(self._slow) == _RECENT_COUNT and not any(self._slow)
        return quick and not self.blocks


@attrs.define(eq=False)
class SharedContext(Generic[R]):
    """What the plugins of one store share; `R` is `PluginRunner`."""

    config: DispatchConfig
    calls: HookCalls
    """All calls of plugins that are under way."""
    now: Callable[[], float] = time.monotonic
    """Returns monotonic seconds, for pauses between retries."""
    lock: threading.RLock = attrs.field(init=False)
    """Guards the plugins' states, their assignment to read groups, and their calls."""
    stall_seconds: float = attrs.field(init=False)
    """Seconds that a call may take without advancing."""
    runners: dict[str, R] = attrs.field(factory=dict, init=False)
    """The plugins by name, in dispatch order; replaced as a whole."""
    halted: str | None = attrs.field(default=None, init=False)
    """The plugin that stopped all dispatching."""
    is_stopping: bool = attrs.field(default=False, init=False)
    """Whether the store closes, so that the plugin has not failed if a call is refused."""
    is_finishing: bool = attrs.field(default=False, init=False)
    """Whether the store closes: what is to be retried is due now, for the last time."""
    changed: SafeEvent = attrs.field(factory=SafeEvent, init=False)
    """Set when a plugin's state has changed; cleared when records are written."""
    moved: SafeEvent = attrs.field(factory=SafeEvent, init=False)
    """Set, and replaced by another one, when a plugin's place or state changes."""
    _listeners: list[Callable[[], None]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.lock, self.stall_seconds = self.calls.lock, self.config.stall_ms / 1_000

    # ------------------------------------------------------------------ all plugins

    def halt(self, name: str) -> None:
        """Stop all dispatching because a plugin failed, whose policy this is."""
        with self.lock:
            self.halted = name

    def go_on(self, name: str) -> None:
        """Undo `halt` for a plugin."""
        with self.lock:
            if self.halted == name:
                self.halted = None

    # ------------------------------------------------------------------ notifying

    def listen(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called whenever a plugin's state has changed."""
        self._listeners.append(listener)

    def notify_changed(self) -> None:
        """Notify all that a plugin's state has changed."""
        self.changed.set()
        self.notify_moved()
        for listener in self._listeners:
            listener()

    def notify_moved(self) -> None:
        """Set `moved`: a plugin's place or state has changed."""
        moved, self.moved = self.moved, SafeEvent()
        moved.set()

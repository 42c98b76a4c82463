"""`SharedContext`: what the plugins of one store share, and who is notified of their changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from reput.dispatch.config import DispatchConfig
from reput.signalsafe import SafeEvent

if TYPE_CHECKING:
    from reput.dispatch.runtime.hookcalls import HookCalls

__all__ = ["SharedContext"]


R = TypeVar("R")


@attrs.define(eq=False)
class SharedContext(Generic[R]):
    """What the plugins of one store share; `R` is `PluginRunner`."""

    config: DispatchConfig
    calls: HookCalls
    """All calls of plugins that are under way."""
    now: Callable[[], float] = time.monotonic
    """Returns monotonic seconds, for pauses between retries."""
    lock: threading.RLock = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.calls.lock, takes_self=True)
    )
    """Guards the plugins' states, their assignment to read groups, and their calls."""
    runners: dict[str, R] = attrs.field(factory=dict, init=False)
    """The plugins by name, in dispatch order; replaced as a whole."""
    halted: str | None = attrs.field(default=None, init=False)
    """The plugin that stopped all dispatching."""
    is_stopping: bool = attrs.field(default=False, init=False)
    """Whether the store closes, so that a refused call is no failure of the plugin."""
    is_finishing: bool = attrs.field(default=False, init=False)
    """Whether the store closes: what is to be retried is due now, for the last time."""
    changed: SafeEvent = attrs.field(factory=SafeEvent, init=False)
    """Set when a plugin's state has changed; cleared when records are written."""
    moved: SafeEvent = attrs.field(factory=SafeEvent, init=False)
    """Set, and replaced by another one, when a plugin's place or state changes."""
    _listeners: list[Callable[[], None]] = attrs.field(factory=list, init=False)

    # ------------------------------------------------------------------ all plugins

    @property
    def stall_seconds(self) -> float:
        """Seconds that a call may take without advancing."""
        return self.config.stall_ms / 1_000

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

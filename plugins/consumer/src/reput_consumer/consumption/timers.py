"""`Timers`: what an engine has to do at some time, and when the next of it is due."""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.define(eq=False, repr=False)
class Timers:
    """Times by name of the work, ms. Guarded by the lock of its owner."""

    wake_at: Callable[[int], None]
    """Called with a time at which the owner wants its work done; must not wait."""
    _due: dict[str, int] = attrs.field(init=False, factory=dict)

    def arm(self, name: str, at: int) -> None:
        """Have some work done at a time, or earlier if it was due earlier already."""
        if at < self._due.get(name, at + 1):
            self._due[name] = at
            self.wake_at(at)

    def is_armed(self, name: str) -> bool:
        """Return whether some work is to be done at some time."""
        return name in self._due

    def due_of(self, name: str) -> int | None:
        """Return when some work is to be done, ms; None if it is not to be done."""
        return self._due.get(name)

    def is_due(self, name: str, now: int) -> bool:
        """Return whether some work is due."""
        return self._due.get(name, now + 1) <= now

    def drop(self, name: str) -> None:
        """Forget some work, as it is being done."""
        self._due.pop(name, None)

    def take(self, name: str, now: int) -> bool:
        """Return whether some work is due, and count it as done."""
        is_due = self.is_due(name, now)
        if is_due:
            self.drop(name)
        return is_due

    def disarm(self) -> None:
        """Forget all work."""
        self._due.clear()

    @property
    def next_due(self) -> int | None:
        """When work is due next; None without work."""
        return min(self._due.values(), default=None)

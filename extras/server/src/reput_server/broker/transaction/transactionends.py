"""`TransactionEnds`: ends half messages, and sends check-backs to producers.

Whatever protocol producers speak, this is the one place that knows the plugin ``transaction``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext

_PLUGIN: Final = "transaction"
_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05
_WATCHED_MAX: Final = 10_000


@attrs.define(eq=False, repr=False)
class TransactionEnds:
    """Ends and check-backs of the producers of one protocol. Used on the event loop."""

    context: BrokerContext
    tell: Callable[[Any], None]
    """Called on the event loop with a half message, to send its check-back."""
    _watched: set[str] = attrs.field(init=False, factory=set)
    """Producer groups with check-backs; a function of the store's own program goes first."""
    _turn: int = attrs.field(init=False, default=0)

    @property
    def plugin(self) -> Any:
        """The plugin; None without it."""
        return self.context.store.plugin_objects.get(_PLUGIN)

    def checked(self) -> Any:
        """Return the plugin.

        Raises:
            Refusal: the store does not have it.
        """
        if self.plugin is None:
            raise self.context.missing(_PLUGIN, "transactions")
        return self.plugin

    async def end(self, half: int | str | Callable[[], int], *, commits: bool) -> None:
        """End a transaction, also one whose copy for a check-back the plugin is just putting.

        Until the copy is in the half message's place, the plugin lets nobody end either. An answer
        to the check-back comes after that; what a producer says by itself may come at any time.

        Args:
            half: physical offset of the half message, or its transaction id, or a function that
                finds the offset; called in turn with other puts.
            commits: whether it is committed, or rolled back.

        Raises:
            ReputError: it is not a half message, or has another end already.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self.context.run_in_turn(self._end, half, commits)
                return
            except ReputError as error:
                # Only the plugin's own errors name a transaction.
                if attempt == _ATTEMPTS or not hasattr(error, "transaction"):
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    def _end(self, half: int | str | Callable[[], int], commits: bool) -> None:
        found = half() if callable(half) else half
        plugin = self.plugin
        (plugin.commit if commits else plugin.rollback)(found)

    # ------------------------------------------------------------------ check-back

    def watch(self, group: str) -> None:
        """Send check-backs for half messages to the producers of a group."""
        plugin = self.plugin
        if plugin is None or not self.context.is_writable or group in plugin.checks:
            return
        if len(self._watched) < _WATCHED_MAX:
            self._watched.add(group)
            self.context.serial.submit(plugin.on_check, self._ask, group, answers_later=True)

    def close(self) -> None:
        """Send no more check-backs."""
        for group in self._watched:
            self.plugin.on_check(None, group)

    def next(self, count: int) -> int:
        """Return which of ``count`` producers gets a check-back: another one each time."""
        self._turn += 1
        return self._turn % count

    def _ask(self, half: Any) -> None:
        """Send a check-back; on the plugin's thread."""
        if not self.context.loop.is_closed():
            self.context.loop.call_soon_threadsafe(self.tell, half)

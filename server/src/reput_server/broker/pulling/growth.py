"""`LogGrowth`: looks whether a log grows that another process writes.

Nothing tells a store that was opened for reading of new messages. So while pulls wait, the end of
the log is looked at.

Source: RocketMQ ``PullRequestHoldService``, which looks at each queue every five seconds, because a
message may be in the log before it is in its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from reput_server.broker.context import BrokerContext

__all__ = ["LogGrowth"]

_SECONDS: Final = 0.1
_SECONDS_EACH: Final = 0.001
"""More for each queue, as its pulls read it then: this bounds the processor time."""
_DERIVED_SECONDS: Final = 5.0
"""How long after the log has grown queues may still get messages."""


@attrs.define(eq=False)
class LogGrowth:
    """Looks again and again while somebody waits. Used on the event loop."""

    context: BrokerContext
    begin: Callable[[Coroutine[Any, Any, None]], None]
    """Has something done, and keeps it from being collected meanwhile."""
    tell: Callable[[], None]
    """Called if the log has grown, or may have."""
    waiting: Callable[[], int]
    """Returns how many queues somebody waits for; looking ends with none."""
    _is_looking: bool = attrs.field(init=False, default=False)
    _end: int = attrs.field(init=False, default=-1)
    """Where the log ended at the last look."""
    _grew_at: float = attrs.field(init=False, default=0.0)

    def look(self) -> None:
        """Begin to look, if that has not begun."""
        if not self._is_looking:
            self._is_looking = True
            self._later()

    def _later(self) -> None:
        seconds = _SECONDS + _SECONDS_EACH * self.waiting()
        self.context.loop.call_later(seconds, lambda: self.begin(self._look()))

    async def _look(self) -> None:
        if not self.waiting():
            self._is_looking = False
            return
        context = self.context
        try:
            # On a thread, as it reads the disk.
            end = await context.run(lambda: context.store.log.max_physical_offset)
        except (ReputError, OSError):
            end = -1  # the pulls find out by reading
        now = context.loop.time()
        if end < 0 or end != self._end:
            self._end, self._grew_at = end, now
        if now - self._grew_at < _DERIVED_SECONDS:
            self.tell()
        self._later()

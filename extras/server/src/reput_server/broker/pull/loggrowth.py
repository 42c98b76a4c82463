"""`LogGrowth`: looks for messages that another process has written.

A store that was opened for reading is not notified of new messages. So while pulls wait, the end of
the log is looked at, and then the ends of their queues: a queue gets a message after the log.

Source: RocketMQ ``PullRequestHoldService``, which looks at each queue every five seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from reput_consumer import MessageQueue
    from reput_server.broker.brokercontext import BrokerContext

_PAUSE_SECONDS: Final = 0.1
_PAUSE_TIMES: Final = 9
"""A pause is at least this many times as long as the look before it: many queues take long."""
_QUEUES_SECONDS: Final = 5.0
"""Queues are looked at for so long after the log has grown, and otherwise once in this time."""


@attrs.define(eq=False, repr=False)
class LogGrowth:
    """Looks again and again while pulls wait. Used on the event loop."""

    context: BrokerContext
    begin: Callable[[Coroutine[Any, Any, None]], None]
    """Has something done, and keeps it from being collected meanwhile."""
    waiting: Callable[[], Mapping[MessageQueue, int]]
    """Returns the lowest queue offset that pulls wait for, by queue; looking ends with none."""
    reached: Callable[[MessageQueue, int], None]
    """Called with a queue that has a message there, and with the queue's end."""
    _is_looking: bool = attrs.field(init=False, default=False)
    _end: int = attrs.field(init=False, default=-1)
    """Where the log ended at the last look."""
    _grew_at: float = attrs.field(init=False, default=0.0)
    _queues_at: float = attrs.field(init=False, default=0.0)
    """When queues were looked at the last time, by the loop's clock, s."""

    def look(self) -> None:
        """Begin to look, if that has not begun."""
        if not self._is_looking:
            self._is_looking = True
            self._later(_PAUSE_SECONDS)

    def _later(self, seconds: float) -> None:
        self.context.loop.call_later(seconds, lambda: self.begin(self._look()))

    async def _look(self) -> None:
        loop = self.context.loop
        began = loop.time()
        waiting = self.waiting()
        if not waiting:
            self._is_looking = False
            return
        try:
            # On a thread, because it reads the disk.
            for queue, end in await self.context.run(self._grown, waiting):
                self.reached(queue, end)
        except (ReputError, OSError):
            pass  # a pull reports it when its time is over
        finally:
            self._later(max(_PAUSE_SECONDS, _PAUSE_TIMES * (loop.time() - began)))

    def _grown(self, waiting: Mapping[MessageQueue, int]) -> list[tuple[MessageQueue, int]]:
        """Return the queues that have a message at their offset, with their ends."""
        now = self.context.loop.time()
        end = self.context.store.log.max_physical_offset
        if end != self._end:
            self._end, self._grew_at = end, now
        if now - max(self._grew_at, self._queues_at) < _QUEUES_SECONDS <= now - self._grew_at:
            return []
        self._queues_at = now
        ends = ((queue, self.context.port.bounds(queue)[1]) for queue in waiting)
        return [(queue, end) for queue, end in ends if end > waiting[queue]]

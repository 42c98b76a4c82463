"""`LiteExpiry`: deletes lite topics to which nothing was sent for as long as their topic says.

Nothing is taken out of the log: the messages of an expired lite topic are hidden, and groups have
no offsets of it any more. Its next message makes a new lite topic, at the next queue offset.

Source: RocketMQ 5.5 ``AbstractLiteLifecycleManager``. Different on purpose: a lite topic of which a
message is handed out and not acknowledged yet does not expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_server.broker.litenames import expiration_minutes, is_light, is_lite, parent_of

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.lite.litesubscriptions import LiteSubscriptions

logger = logging.getLogger(__name__)

_MINUTE_MS: Final = 60_000
_LEAST_MS: Final = 15 * _MINUTE_MS
"""No lite topic expires sooner, and none in the first time after a start (``minLiteTTl``)."""
_INTERVAL_SECONDS: Final = 120.0
"""Between two looks (``liteTtlCheckInterval``)."""
_AT_ONCE_MAX: Final = 1_000
"""Lite topics that expire by one look: about half a second of work."""
_PAUSE_SECONDS: Final = 1.0
"""Until the next look, if there may be more of them."""


@attrs.define(eq=False, repr=False)
class LiteExpiry:
    """Looks again and again. All but `expire` is used on the event loop."""

    context: BrokerContext
    subscriptions: LiteSubscriptions
    begin: Callable[[Coroutine[Any, Any, None]], object]
    """Has something done, and keeps it from being collected meanwhile."""
    _timer: asyncio.TimerHandle | None = attrs.field(init=False, default=None)

    def start(self) -> None:
        """Look for the first time once the server has run for a while."""
        self._later(_LEAST_MS / 1_000)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self, seconds: float) -> None:
        self._timer = self.context.loop.call_later(seconds, lambda: self.begin(self.look()))

    async def look(self) -> None:
        """Delete what has expired, and look later again."""
        pause = _INTERVAL_SECONDS
        try:
            if len(await self.context.run(self.expire)) == _AT_ONCE_MAX:
                pause = _PAUSE_SECONDS
        except (ReputError, OSError) as error:
            logger.warning("lite topics not expired error=%s", error)
        finally:
            if self._timer is not None:
                self._later(pause)

    def expire(self, now: int | None = None) -> list[str]:
        """Delete the lite topics that have expired; return their light queues.

        Args:
            now: ms since the epoch; the present time when left out.

        Raises:
            ReputError: the queues cannot be read, or the log cannot be flushed.
            OSError: the note of deleted topics cannot be written.
        """
        limits = self._limits()
        now = self.context.clock() if now is None else now
        found = self._expired(limits, now) if limits else {}
        if found:
            self.context.plugin.hide_light_queues(found)
            self.subscriptions.end_queues(found)
            logger.info("lite topics expired count=%d", len(found))
        return list(found)

    def _limits(self) -> dict[str, int]:
        """Return after how many milliseconds lite topics expire, by their topic."""
        found = {}
        for name, each in self.context.topics.all().items():
            minutes = expiration_minutes(each) if is_lite(each) else 0
            if minutes > 0:
                found[name] = max(minutes * _MINUTE_MS, _LEAST_MS)
        return found

    def _expired(self, limits: Mapping[str, int], now: int) -> dict[str, int]:
        """Return light queues that have expired, and where they end."""
        plugin = self.context.plugin
        out = {each.topic for each in plugin.popper.out()}
        found: dict[str, int] = {}
        for each in self.context.store.queues():
            name, end = each.topic, each.max_queue_offset
            limit = limits.get(parent_of(name)) if is_light(name) and name not in out else None
            if limit is None or plugin.deleted.hides(name, each.queue_id, end):
                continue
            stored = each.last_update_timestamp
            if stored is not None and now - stored > limit:
                found[name] = end
                if len(found) == _AT_ONCE_MAX:
                    break
        return found

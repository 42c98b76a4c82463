"""`GroupNotifier`: notifies a client that its group has changed: at once, and then not too often.

A thousand members that join at once would be half a million notices; each client needs the last.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import Command, GroupOf, RequestCode

if TYPE_CHECKING:
    from reput_server.wire.interfaces import Connection

_PAUSE_SECONDS: Final = 0.1
_SAVED_SECONDS: Final = 0.5
"""Pauses that were not made count for so long: a few notices are always sent at once."""


@attrs.define(eq=False, repr=False)
class GroupNotifier:
    """The notices to one client about one group."""

    loop: asyncio.AbstractEventLoop
    peer: Connection
    group: str
    _is_due: bool = attrs.field(init=False, default=False)
    """Whether a notice is due, which covers all changes until it is sent."""
    _next: float = attrs.field(init=False, default=0.0)
    """From when on a notice may be sent, by the loop's clock, s."""

    def changed(self) -> None:
        """Notify the client; on any thread, after the change."""
        if self._is_due or self.loop.is_closed():
            return
        self._is_due = True
        self.loop.call_soon_threadsafe(self._tell_in_time)

    def _tell_in_time(self) -> None:
        if self.loop.time() < self._next:
            self.loop.call_at(self._next, self._tell)
        else:
            self._tell()

    def _tell(self) -> None:
        self._is_due = False  # first: later changes need another notice
        self._next = max(self._next, self.loop.time() - _SAVED_SECONDS) + _PAUSE_SECONDS
        self.peer.tell(
            Command.request(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                GroupOf(consumer_group=self.group),
                one_way=True,
            )
        )

"""`SharedReads`: connections that only send are read together, all that have bytes in one call.

A send of such a connection costs a read, a write, and what the log costs. The event loop's own way
costs as much again, for each of them. Whatever is not an ordinary send ends the sharing: its
connection's transport reads on.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import attrs

if TYPE_CHECKING:
    import asyncio

    from reput_server.wire.contract import FromSockets, Socket

logger = logging.getLogger(__name__)

__all__ = ["SharedPeer", "SharedReads"]

_READ_TOGETHER: Final = 64
"""Connections that are read in one call: some hundred microseconds."""
_CALLS: Final = 4
"""Such calls before the event loop goes on to other work."""


class SharedPeer(Protocol):
    """A connection that is read together with others."""

    address: tuple[str, int]

    def shared_moved(self, now: float) -> None:
        """Note that bytes came, by the loop's clock, s."""
        ...

    def shared_rest(self, data: bytes, answers: bytes) -> None:
        """Write answers that were not written, and take bytes that were not taken.

        Without either nothing more can be read.
        """
        ...

    def unshare(self) -> None:
        """Be read by the transport again."""
        ...


@attrs.define(eq=False)
class SharedReads:
    """The connections that are read together. All of it runs on the event loop."""

    _loop: asyncio.AbstractEventLoop
    _take: Callable[[Sequence[Socket]], FromSockets | None]
    _ready: Any
    """An epoll object: the loop waits for it as for one socket."""
    _peers: dict[int, tuple[Socket, SharedPeer]] = attrs.field(init=False, factory=dict)
    """By descriptor."""

    @classmethod
    def on(
        cls,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[Sequence[Socket]], FromSockets | None],
    ) -> Self | None:
        """Return what reads connections together; None where the system has no epoll.

        Args:
            loop: the event loop.
            take: reads sockets, takes and answers their requests; None if it read none of them.
        """
        if not hasattr(select, "epoll"):
            return None
        made = cls(loop, take, select.epoll())
        loop.add_reader(made._ready.fileno(), made._read)
        return made

    def close(self) -> None:
        """Read none of them any more."""
        if not self._ready.closed:
            self._loop.remove_reader(self._ready.fileno())
            self._ready.close()

    def add(self, peer: SharedPeer, descriptor: int) -> None:
        """Read a connection, which its transport reads no longer, until `remove`."""
        self._peers[descriptor] = (descriptor, peer.address), peer
        self._ready.register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """Leave a connection, which is still open, to its transport."""
        if self._peers.pop(descriptor, None) is not None and not self._ready.closed:
            self._ready.unregister(descriptor)

    def _read(self) -> None:
        for _ in range(_CALLS):
            events = self._ready.poll(0, _READ_TOGETHER)
            if not events:
                return
            self._read_together([self._peers[descriptor] for descriptor, _ in events])

    def _read_together(self, ready: Sequence[tuple[Socket, SharedPeer]]) -> None:
        try:
            taken = self._take([socket for socket, _ in ready])
        except Exception:  # their transports go on, and say what is the matter
            logger.exception("connections not read together count=%d", len(ready))
            taken = None
        now = self._loop.time()
        for _, peer in ready:
            if taken is None:
                peer.unshare()
            else:
                peer.shared_moved(now)
        for place, data, answers in () if taken is None else taken[1]:
            ready[place][1].shared_rest(data, answers)

"""Connections that only send are read together, all that have bytes in one call, and answered so.

A send of such a connection costs a read, a write, and what the log costs. The event loop's own way
costs as much again, for each of them. Whatever is not an ordinary send ends the sharing: its
connection's transport reads on.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import attrs

from reput_server.wire.interfaces import Connection
from reput_server.wire.sockets import write_sockets

if TYPE_CHECKING:
    import asyncio

    from reput_server.wire.interfaces import Socket, TakeSockets

logger = logging.getLogger(__name__)

_TOGETHER: Final = 64
"""Connections that are read or written in one call: some hundred microseconds."""
_CALLS: Final = 4
"""Such calls before the event loop goes on to other work."""
_NOT_SENT: Final = "its answers could not be sent"


class SharedPeer(Connection, Protocol):
    """A connection that is read together with others."""

    def shared_moved(self, now: float) -> None:
        """Note that bytes came, by the loop's clock, s."""
        ...

    def end_shared(self, answers: bytes) -> None:
        """Be read by the transport again, which also writes answers that were not written."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take bytes of the peer."""
        ...

    def unshare(self) -> None:
        """Be read by the transport again."""
        ...


@attrs.define(eq=False, repr=False)
class SharedReads:
    """The connections that are read together. All of it runs on the event loop."""

    _loop: asyncio.AbstractEventLoop
    _take: TakeSockets
    _ready: Any
    """An epoll object: the loop waits for it as for one socket."""
    _peers: dict[int, tuple[Socket, SharedPeer]] = attrs.field(init=False, factory=dict)
    """By descriptor."""

    @classmethod
    def on(cls, loop: asyncio.AbstractEventLoop, take: TakeSockets) -> Self | None:
        """Return what reads connections together; None if the system cannot wait for them at once.

        Args:
            loop: the event loop.
            take: reads sockets and takes their requests; None if it read none of them.
        """
        if not hasattr(select, "epoll"):
            return None
        try:
            made = cls(loop, take, select.epoll())
        except OSError as error:  # too many open files, for example
            logger.warning("connections are read one by one error=%s", error)
            return None
        loop.add_reader(made._ready.fileno(), made._read)
        return made

    def close(self) -> None:
        """Read none of them any more."""
        if not self._ready.closed:
            self._loop.remove_reader(self._ready.fileno())
            self._ready.close()

    def add(self, peer: SharedPeer, descriptor: int) -> bool:
        """Read a connection until `remove`, once its transport reads it no longer.

        Returns:
            False if the system cannot wait for one more.
        """
        try:
            self._ready.register(descriptor, select.EPOLLIN)
        except OSError as error:
            logger.warning("connection not read with others error=%s", error)
            return False
        self._peers[descriptor] = (descriptor, peer.address), peer
        return True

    def remove(self, descriptor: int) -> None:
        """Leave a connection, which is still open, to its transport."""
        if self._peers.pop(descriptor, None) is not None and not self._ready.closed:
            self._ready.unregister(descriptor)

    def _read(self) -> None:
        for _ in range(_CALLS):
            events = self._ready.poll(0, _TOGETHER)
            if not events:
                return
            self._read_together([self._peers[descriptor] for descriptor, _ in events])

    def _read_together(self, ready: Sequence[tuple[Socket, SharedPeer]]) -> None:
        try:
            taken = self._take([socket for socket, _ in ready], [peer for _, peer in ready])
        except Exception:
            logger.exception("connections not read together count=%d", len(ready))
            # It is not known which of them were read, and how far.
            for _, peer in ready:
                peer.cut("its requests could not be read")
            return
        if taken is None:
            for _, peer in ready:
                peer.unshare()
            return
        now = self._loop.time()
        for _, peer in ready:
            peer.shared_moved(now)
        _, rests = taken
        # All answers first: nothing may be written between the parts of one.
        for place, _, answers in rests:
            ready[place][1].end_shared(answers)
        for place, data, _ in rests:
            if data:
                self._go_on(ready[place][1], data)

    def _go_on(self, peer: SharedPeer, data: bytes) -> None:
        try:
            peer.data_received(data)
        except Exception:  # as an event loop does with a connection whose protocol fails
            logger.exception("request failed peer=%s:%d", *peer.address)
            peer.cut("its request failed")


def write_together(answers: Sequence[tuple[Connection, Sequence[bytes]]]) -> None:
    """Write the answers to each connection, whole frames; many shared ones in one call.

    If such a call fails, its connections are cut, as it is not known how much was written. The
    others get their answers.
    """
    shared = [each for each in answers if each[0].direct_descriptor >= 0]
    others = [each for each in answers if each[0].direct_descriptor < 0]
    for first in range(0, len(shared), _TOGETHER):
        _write_shared(shared[first : first + _TOGETHER])
    for peer, frames in others:
        _write(peer, frames)


def _write_shared(answers: Sequence[tuple[Connection, Sequence[bytes]]]) -> None:
    try:
        # The transport of a connection that is shared has nothing to write, and so nothing comes
        # between the parts of a frame: the rest is the next that it writes.
        joined = [(peer, b"".join(frames)) for peer, frames in answers]
        sizes = write_sockets([(peer.direct_descriptor, data) for peer, data in joined])
    except Exception:
        logger.exception("answers not written together count=%d", len(answers))
        # It is not known which of them were written, and how far.
        for peer, _ in answers:
            peer.cut(_NOT_SENT)
        return
    for (peer, data), size in zip(joined, sizes, strict=True):
        if size < len(data):
            _write(peer, [data[size:]])


def _write(peer: Connection, frames: Sequence[bytes]) -> None:
    try:
        if data := b"".join(frames):
            peer.write(data)
    except Exception:  # others are answered all the same
        logger.exception("answers not sent count=%d", len(frames))
        peer.cut(_NOT_SENT)

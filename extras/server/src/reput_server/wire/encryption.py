"""One port for plain and for encrypted connections: the first byte of each decides.

A TLS connection begins with a record of type 22; a frame begins with the highest byte of its
length, which no frame that is allowed has above 1. Source: RocketMQ
``NettyRemotingServer.HandshakeHandler``, ``TlsMode``.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_HANDSHAKE: Final = 22
_PLAIN_SIZE: Final = 256 << 10
"""Bytes that are decrypted at a time."""


@attrs.frozen(eq=False)
class Encryption:
    """How the connections of a port may be encrypted."""

    context: ssl.SSLContext
    is_required: bool


class Inside(Protocol):
    """What takes a connection once its kind is known; it is an `asyncio.Protocol`, too."""

    is_open: bool
    address: tuple[str, int]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take bytes that are not encrypted."""
        ...

    def pause_writing(self) -> None:
        """Write no more for a while."""
        ...

    def resume_writing(self) -> None:
        """Write again."""
        ...

    def go_over(self, transport: asyncio.Transport) -> None:
        """Write by another transport from now on."""
        ...

    def cut(self, reason: str) -> None:
        """Close the connection at once."""
        ...

    def end(self) -> None:
        """Close the connection when what was written is sent."""
        ...


class ProtocolDetector(asyncio.Protocol):
    """A new connection, until its first byte has come. Runs on the event loop."""

    def __init__(self, peer: Inside, encryption: Encryption) -> None:
        self._peer = peer
        self._encryption = encryption
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection from its beginning."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._peer.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See which kind of connection it is, and give it to who goes on."""
        peer, transport = self._peer, self._transport
        if transport is None or not peer.is_open:
            return
        if data[0] == _HANDSHAKE:
            encrypted = Encrypted(transport, peer, self._encryption.context)
            peer.go_over(encrypted)
            transport.set_protocol(encrypted)
            encrypted.data_received(data)
        elif self._encryption.is_required:
            peer.cut("it is not encrypted, and others are not taken")
        else:
            transport.set_protocol(cast("asyncio.Protocol", peer))
            peer.data_received(data)


class Encrypted(asyncio.Transport, asyncio.Protocol):
    """Decrypts what comes for a peer, and encrypts what the peer writes.

    It is the protocol of the socket's transport, and the transport of the peer.
    """

    def __init__(self, transport: asyncio.Transport, peer: Inside, context: ssl.SSLContext) -> None:
        super().__init__()
        self._transport = transport
        self._peer = peer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_agreed = False

    # ------------------------------------------------------------------ what comes

    def data_received(self, data: bytes) -> None:
        """Take encrypted bytes of the peer."""
        self._incoming.write(data)
        self._carry_out(self._read)

    def _read(self) -> None:
        if not self._is_agreed:
            self._tls.do_handshake()
            self._is_agreed = True
        plain: list[bytes] = []
        try:
            while data := self._tls.read(_PLAIN_SIZE):
                plain.append(data)
        finally:
            if plain:
                self._peer.data_received(b"".join(plain))
        self._peer.end()  # the peer has said that it writes no more

    def _carry_out(self, work: Callable[[], object]) -> None:
        """Do what may fail or lack bytes, and send what is to be said about it."""
        reason = None
        try:
            work()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            logger.warning("encryption failed peer=%s:%d error=%s", *self._peer.address, reason)
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())
        if reason is not None and self._peer.is_open:
            self._peer.end()  # and not cut: the other side gets the reason

    # ------------------------------------------------------------------ what the peer does

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt bytes and send them."""
        self._carry_out(lambda: self._encrypt(memoryview(data)))

    def _encrypt(self, left: memoryview[Any]) -> None:
        while left:
            left = left[self._tls.write(left) :]

    def close(self) -> None:
        """Say that nothing more comes, and close when everything is sent."""
        if self._is_agreed:
            self._carry_out(self._tls.unwrap)
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or is about to be."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no more bytes."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the system has not taken."""
        return self._transport.get_write_buffer_size()

    # ------------------------------------------------------------------ what the socket says

    def pause_writing(self) -> None:
        """Stop the peer's writes: the other side does not read."""
        self._peer.pause_writing()

    def resume_writing(self) -> None:
        """Resume the peer's writes: the other side reads again."""
        self._peer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._peer.connection_lost(exc)

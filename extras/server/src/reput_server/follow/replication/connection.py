"""`HaConnection`: a socket to a master's HA port."""

from __future__ import annotations

import contextlib
import socket
from typing import Self

from reput_client.remoting import Address, Transfer, TransferReader, address_text
from reput_server.follow.addresses import connect
from reput_server.follow.errors import BrokerError


class HaConnection:
    """Used by one thread; only `abort` may be called by others."""

    def __init__(self, address: Address, timeout: float) -> None:
        """Connect.

        Args:
            address: of the HA port.
            timeout: seconds for the connection, and for each report.

        Raises:
            BrokerError: there is no connection.
        """
        self.name = address_text(address)
        self._timeout = timeout
        self._why_aborted = ""
        self._reader = TransferReader(self.name)
        try:
            with contextlib.ExitStack() as opened:
                self._socket = opened.enter_context(connect(address, timeout))
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                opened.pop_all()
        except OSError as error:
            raise BrokerError(self.name, f"HA port: {_reason_of(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send a report.

        Raises:
            BrokerError: the connection is lost.
        """
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(data)
        except OSError as error:
            raise BrokerError(self.name, f"HA port: {_reason_of(error)}") from error

    def read(self, seconds: float) -> list[Transfer] | None:
        """Return the transfers that are whole now; None if no byte came in time.

        Raises:
            BrokerError: the connection is lost.
            TransferError: the bytes are not those of a master.
        """
        try:
            self._socket.settimeout(seconds)
            size = self._socket.recv_into(self._reader.room())
        except TimeoutError:
            return None
        except OSError as error:
            raise BrokerError(self.name, f"HA port: {_reason_of(error)}") from error
        if not size:
            reason = self._why_aborted or "HA port: the master closed the connection"
            raise BrokerError(self.name, reason)
        return self._reader.received(size)

    def abort(self, reason: str = "") -> None:
        """End the connection; a `read` that waits on another thread raises ``reason``."""
        self._why_aborted = reason
        with contextlib.suppress(OSError):  # closed already
            self._socket.shutdown(socket.SHUT_RDWR)


def _reason_of(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error.strerror or error)

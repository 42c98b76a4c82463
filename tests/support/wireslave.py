"""A slave for tests: one HA connection, reports as a test makes them, transfers as they come::

    with WireSlave(server.replicas.address) as slave:
        slave.report(0)
        slave.read_to(end)      # slave.data, slave.begin, slave.sizes

It is written without anything of reput, so that a mistake is not in both.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Self


class WireSlave:
    """One connection to a master's HA port."""

    def __init__(
        self, address: tuple[str, int], context: ssl.SSLContext | None = None, timeout: float = 20.0
    ) -> None:
        self.socket: socket.socket = socket.create_connection(address, timeout)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.data = bytearray()
        self.begin = -1
        """Physical offset of the first byte that came."""
        self.sizes: list[int] = []
        """Of transfers, heartbeats included."""
        self.offsets: list[int] = []
        self._rest = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def report(self, offset: int) -> None:
        self.socket.sendall(struct.pack(">q", offset))

    def acknowledge(self) -> None:
        self.report(self.end)

    def read_to(self, end: int) -> bytes:
        """Read transfers until the log below ``end`` is there; return all bytes that came."""
        while self.begin < 0 or self.end < end:
            assert self.read(), f"closed at {self.end}, before {end}"
        return bytes(self.data)

    def read(self) -> bool:
        """Read what comes next; False if the master has closed the connection."""
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self._rest += data
        while len(self._rest) >= 12:
            offset, size = struct.unpack_from(">qi", self._rest)
            if len(self._rest) < 12 + size:
                break
            self.offsets.append(offset)
            self.sizes.append(size)
            if size:
                if self.begin < 0:
                    self.begin = offset
                assert offset == self.end, (offset, self.end)
                self.data += self._rest[12 : 12 + size]
            del self._rest[: 12 + size]
        return bool(data)

    def is_closed(self) -> bool:
        """Whether the master closes the connection; what it sends before is kept."""
        while self.read():
            pass
        return True

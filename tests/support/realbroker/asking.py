"""The two requests that starting a broker needs, in the plainest form of RocketMQ's protocol.

Not what is tested: that a broker is known to its name server has to be seen without our own client.
"""

from __future__ import annotations

import json
import socket
import struct

_BROKER_CLUSTER_INFO = 106
_UPDATE_BROKER_CONFIG = 25
_TIMEOUT_SECONDS = 30


def is_registered(name_server: str, broker: str) -> bool:
    """Whether a name server tells clients the address ``broker``."""
    # Not read as JSON: RocketMQ writes bare numbers for keys.
    return f'"{broker}"'.encode() in _ask(name_server, _BROKER_CLUSTER_INFO)


def have_registered(broker: str) -> None:
    """Let a broker register everything now, and not with its next round, 10 s later."""
    _ask(broker, _UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")


def _ask(address: str, code: int, body: bytes = b"") -> bytes:
    """Send one request; the body of the answer."""
    header = json.dumps({"code": code, "opaque": 1, "flag": 0, "language": "OTHER", "version": 0})
    head = header.encode("ascii")
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_SECONDS) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body)
        with connection.makefile("rb") as answer:
            size, head_size = struct.unpack(">iI", answer.read(8))
            rest = answer.read(size - 4)
    # The highest byte tells how the header is written: 0, as JSON.
    return rest[head_size & 0xFFFFFF :]

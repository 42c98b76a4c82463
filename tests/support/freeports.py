"""Ports for servers of tests, also for those that are started again on the same one."""

from __future__ import annotations

import secrets
import socket


def free_ports(*steps: int) -> int:
    """A port that is free on loopback, together with those ``steps`` above it (or below).

    None is one that the system gives to a client: such a client could take it before the server.
    """
    for _ in range(100):
        port = 10_000 + secrets.randbelow(20_000)
        if all(_is_free(port + step) for step in (0, *steps)):
            return port
    raise OSError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
        return True

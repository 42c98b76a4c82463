"""Descriptors of the process: connections take them, and the store needs some for its files.

A store that cannot open a file takes no messages any more, so connections end where the store's
share begins. The system gives the lowest number that is free: a connection's own number shows how
many are in use in the whole process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from typing import Any, Final

logger = logging.getLogger(__name__)

ACCEPTED_AT_ONCE: Final = 16
"""Connections that a loop accepts in one turn, before it counts descriptors."""
_BACKLOG: Final = 4_096
_MOST: Final = 65_536
_OUT_OF: Final = "out of system resource"  # asyncio's own words


def are_left(number: int, spare: int) -> bool:
    """Whether descriptors are left for the store, where a connection has got one of this number.

    Args:
        number: the connection's descriptor.
        spare: how many the store is to have; half of all at most.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft == resource.RLIM_INFINITY or number < soft - min(spare, soft // 2)


def raise_limit() -> None:
    """Let the process have as many descriptors as it may, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen_long(server: asyncio.Server) -> None:
    """Let many connections wait until they are accepted.

    asyncio takes the length of that queue also for how many it accepts in one turn.
    """
    for each in server.sockets:
        number = os.dup(each.fileno())
        with socket.socket(each.family, each.type, each.proto, fileno=number) as same:
            same.listen(_BACKLOG)


def word_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Have one line in the log where the system lets the process accept nothing for a while."""
    is_told_until = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal is_told_until
        if _OUT_OF not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif loop.time() >= is_told_until:
            is_told_until = loop.time() + 1.0
            logger.warning(
                "no connection accepted for a second error=%s; give the process more "
                "descriptors (ulimit -n) or memory",
                context.get("exception"),
            )

    loop.set_exception_handler(handle)

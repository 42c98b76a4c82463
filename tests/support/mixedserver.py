"""A mixed store that a broker serves while its process lives: sends through a socket, a replica.

The producers are threads of the same process, with a client of their own; a replica follows the
broker from a process of its own (`mixedreplica.follow`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
from freeports import free_ports

from reput.record import Message, parse_message_id
from reput_client import Client, Producer
from reput_server import ServerConfig, serving

_HOST: Final = "127.0.0.1"
_PATIENCE: Final = 60.0
"""Seconds; a send is answered far sooner."""


def free_port() -> int:
    """Return a port that nobody listens on now, nor on the one for fast requests below it."""
    return free_ports(-2)


def address_of(port: int) -> str:
    """Where the broker listens on that port, for a replica."""
    return f"{_HOST}:{port}"


@attrs.frozen
class Sent:
    """Where an acknowledged message is, as a receipt says it."""

    physical_offset: int
    queue_offset: int


Send = Callable[[Message], Sent]


@contextmanager
def served(store: Any, port: int) -> Iterator[Send]:
    """Serve a store and its log for the time of a block; yield what sends through the socket."""
    config = ServerConfig(
        listen=(_HOST, port), fast_port=False, name_server=(_HOST, 0), replicas=(_HOST, 0)
    )
    with serving(store, config) as server:
        host, names = server.name_server
        with (
            Client(f"{host}:{names}", send_timeout=_PATIENCE, request_timeout=_PATIENCE) as client,
            client.producer("shop") as producer,
        ):
            yield lambda message: _send(store, producer, message)


def _send(store: Any, producer: Producer, message: Message) -> Any:
    """Send to the message's own queue, once; put it if the broker does not name this queue yet."""
    try:
        result = producer.send(message, queue=lambda queues: queues[message.queue_id])
    except IndexError:
        return store.put(message)
    _, physical_offset = parse_message_id(result.offset_msg_id)
    return Sent(physical_offset, result.queue_offset)

"""`ProtocolService`: what serves a broker's store by another protocol, from another distribution.

A distribution offers one by the entry point group ``reput.services``: a class that is called with
the broker and the address to listen on. It is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from reput.installhints import extra_needed
from reput_server.errors import ServerError

if TYPE_CHECKING:
    from reput_client.remoting import Address

_GROUP: Final = "reput.services"


@attrs.frozen
class CallFigures:
    """What a service does at a moment, and since its start."""

    client_count: int = 0
    """Clients that have sent their settings."""
    stream_count: int = 0
    """Streams of these clients that are open."""
    waiting_count: int = 0
    """Receives that wait for a message."""
    answered: Mapping[tuple[str, str], int] = attrs.field(factory=dict)
    """Answers since the start, by the call's name and the answer's code."""


@attrs.frozen
class CallFault:
    """A fault of one call, which a test injects."""

    code: int | None = None
    """The code that it is answered with; None if its connection seems to break instead."""
    carries_out: bool = False
    """Whether it is carried out before that."""


class CallFaultSource(Protocol):
    """Knows the faults that a test injects."""

    def is_due(self, call: str) -> bool:
        """Whether the next call of a name has a fault."""
        ...

    def take(self, call: str) -> CallFault | None:
        """Return the fault of a call that begins, by its name; None if it has none."""
        ...


class ProtocolService(Protocol):
    """Serves a broker's store on the broker's event loop."""

    @property
    def address(self) -> Address | None:
        """Where it listens; None before it does."""
        ...

    faults: CallFaultSource | None
    """Consulted before each call; None without a test that injects faults."""

    @property
    def call_count(self) -> int:
        """How many calls have come."""
        ...

    def figures(self) -> CallFigures:
        """Return what it does; called on the event loop."""
        ...

    def cut_streams(self) -> None:
        """Break the streams by which clients get commands; called on the event loop."""
        ...

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        ...

    async def stop(self) -> None:
        """End all calls, and close all connections."""
        ...


def service_class(name: str) -> Any:
    """Return the class of a service.

    Raises:
        ServerError: no installed distribution offers it, or a package that it needs is not there.
    """
    for each in entry_points(group=_GROUP, name=name):
        try:
            return each.load()
        except ImportError as error:
            raise ServerError(
                f"{error}; {extra_needed(f'serving {name}', error.name, 'server', name)}"
            ) from error
    raise ServerError(f"no installed distribution offers the service {name!r}")

"""`BesideService`: what serves a broker's store by another protocol, from another distribution.

A distribution offers one by the entry point group ``reput.services``: a class that is called with
the broker and the address to listen on. It is imported only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from reput.installing import install_command
from reput_server.errors import ServerError

if TYPE_CHECKING:
    from reput_server.config import Address

__all__ = ["BesideService", "is_installed", "service_class"]

_GROUP: Final = "reput.services"


class BesideService(Protocol):
    """Serves a broker's store on the broker's event loop."""

    @property
    def address(self) -> Address | None:
        """Where it listens; None before it does."""
        ...

    faults: Callable[[str], int | None]
    """Asked before each call by its name; the code that it returns is answered, if any."""

    @property
    def call_count(self) -> int:
        """How many calls it was asked for."""
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


def is_installed(name: str) -> bool:
    """Whether a distribution offers a service of that name."""
    return bool(entry_points(group=_GROUP, name=name))


def service_class(name: str) -> Any:
    """Return the class of a service.

    Raises:
        ServerError: no installed distribution offers it.
    """
    for each in entry_points(group=_GROUP, name=name):
        return each.load()
    raise ServerError(
        f"serving {name} needs the distribution reput-{name}: {install_command(name)}"
    )

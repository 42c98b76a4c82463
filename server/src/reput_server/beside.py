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

__all__ = ["BesideService", "service_class"]

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


def service_class(name: str) -> Any:
    """Return the class of a service.

    Raises:
        ServerError: no installed distribution offers it, or a package that it needs is not there.
    """
    for each in entry_points(group=_GROUP, name=name):
        try:
            return each.load()
        except ImportError as error:
            text = (
                f"serving {name} is not possible: {error}. Install the packages that reput-{name} "
            )
            text += f"needs: {install_command(name)}; or, if reput is the wheel reput_all, "
            text += f"reput_all-….whl[{name}]"
            raise ServerError(text) from error
    raise ServerError(
        f"serving {name} needs the distribution reput-{name}: {install_command(name)}"
    )

"""Starts the pages of a store, which the distribution ``reput-web`` offers as an entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from reput.errors import ReputError
from reput.installhints import install_command, install_missing
from reput_server.errors import ServerError

if TYPE_CHECKING:
    from reput import Store
    from reput_server.webpages.webconfig import WebConfig

_GROUP: Final = "reput.services"
_NAME: Final = "web"


@attrs.frozen(kw_only=True)
class PagesSource:
    """What the pages ask of the process that serves or follows the store."""

    store: Store
    figures: Callable[[], Mapping[str, Any]]
    """Plain values; called on other threads, as is ``move_group``."""
    actions: tuple[str, ...] | None = None
    """Names of the actions that the store can take; None for all."""
    move_group: Callable[[str, Mapping[Any, int]], None] | None = None
    """How groups are moved; None for the way of the plugin ``consumer``."""


class ServedPages(Protocol):
    """Pages that are served until `stop`."""

    url: str

    def start(self) -> None:
        """Return when browsers get answers."""
        ...

    def stop(self) -> None:
        """End them."""
        ...


def pages_class() -> Any:
    """Return the class that serves pages.

    Raises:
        ServerError: the distribution is not installed, or lacks a package.
    """
    for each in entry_points(group=_GROUP, name=_NAME):
        try:
            return each.load()
        except ImportError as error:
            command = install_missing(error.name) or install_command(_NAME)
            raise ServerError(f"{error}; {command}") from error
    raise ServerError(f"pages need the distribution reput-web: {install_command(_NAME)}")


def started_pages(source: PagesSource, config: WebConfig) -> ServedPages:
    """Serve the pages of a store; returns when browsers get answers.

    Raises:
        OSError: the address cannot be listened on, or the file of the password cannot be read.
        ServerError: they cannot be served.
    """
    settings = attrs.asdict(config)
    try:
        pages: ServedPages = pages_class().of(source, settings)
        pages.start()
    except OSError:
        raise
    except (ReputError, ValueError) as error:
        raise ServerError(f"pages: {error}") from error
    return pages

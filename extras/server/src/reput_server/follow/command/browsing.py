"""Pages for a browser over a store that is followed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from reput.files import system_clock
from reput_server.errors import ServerError
from reput_server.follow.command.display import facts_of
from reput_server.webpages.pages import PagesSource, started_pages
from reput_tools.cli.kit import ExitCode, Failure

if TYPE_CHECKING:
    from reput import Store
    from reput_server.follow.follower.follower import Follower
    from reput_server.webpages.webconfig import WebConfig

_ACTIONS: Final = ("suspend", "resume")
"""A replica takes no messages, offsets or topics but those of its master."""


@contextlib.contextmanager
def browsed(store: Store, follower: Follower, config: WebConfig) -> Iterator[str]:
    """Serve the pages of a store for the time of a ``with`` block; gives their address.

    Raises:
        Failure: they cannot be served.
    """

    def figures() -> dict[str, Any]:
        plugins = store.plugins()
        return {
            "kind": "follower",
            "at": system_clock(),
            **facts_of(follower.status(), plugins, 0.0),
            "plugins": [
                {
                    "name": each.name,
                    "state": str(each.state),
                    "lag_size": each.lag_size,
                    "last_error": each.last_error,
                }
                for each in plugins
            ],
        }

    source = PagesSource(store=store, figures=figures, actions=_ACTIONS)
    try:
        pages = started_pages(source, config)
    except (ServerError, OSError) as error:
        text = f"{getattr(error, 'strerror', None) or error}; see the options --web…"
        raise Failure(text, ExitCode.UNAVAILABLE) from None
    try:
        yield pages.url
    finally:
        pages.stop()

"""Runs a follower until a signal comes, or until it cannot go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from reput_tools.cli.kit import ExitCode, Failure, GracefulStop, follows_links, show_log_lines

if TYPE_CHECKING:
    from reput import Store
    from reput_client.remoting import Address
    from reput_server.follow.command.display import Addresses
    from reput_server.follow.config import FollowConfig
    from reput_server.follow.follower.follower import Follower
    from reput_server.follow.follower.source import AnySource
    from reput_server.follow.follower.states import FollowEndedError
    from reput_server.webpages.webconfig import WebConfig

_LIVE_SECONDS: Final = 0.25
"""Between two looks at signals and figures, where a line on a terminal shows these."""
_QUIET_SECONDS: Final = 1.0
"""The same elsewhere: an idle follower takes next to nothing of a processor."""


def run(
    path: str,
    source: AnySource,
    config: FollowConfig,
    *,
    plugins: Sequence[str] | None,
    metrics: Address | None,
    web: WebConfig | None,
    serves: tuple[Address, Address | None] | None,
    is_once: bool,
    as_json: bool,
) -> None:
    """Follow a broker with the store at ``path``.

    Args:
        path: the store's directory.
        source: the broker.
        config: how it is followed.
        plugins: as for `reput.open`.
        metrics: where metrics are served; None for nowhere.
        web: where pages for a browser are served; None for nowhere.
        serves: where the store is served for reading, and the name server; None for nowhere.
        is_once: whether to end when the store has all.
        as_json: whether to print lines for programs.

    Raises:
        Failure: the broker cannot be followed, or not any more.
    """
    from reput_server.follow.command.display import Addresses
    from reput_server.follow.command.sharedheap import share_heap
    from reput_server.follow.follower.replicaopening import following, open_replica
    from reput_server.follow.follower.states import FollowEndedError

    share_heap()  # before the store's threads begin
    show_log_lines()
    try:
        with (
            GracefulStop() as ending,
            open_replica(
                path, source, config, plugins=plugins, follow_links=follows_links()
            ) as store,
            following(store, source, config) as follower,
            _measured(store, follower, metrics) as address,
            _served(store, serves) as served,
            _browsed(store, follower, web) as pages,
        ):
            addresses = Addresses(address, pages, *served)
            _watch(follower, ending, addresses, is_once=is_once, as_json=as_json)
    except FollowEndedError as error:
        raise Failure(str(error), exit_code_of(error)) from None


def exit_code_of(error: FollowEndedError) -> ExitCode:
    """Return the exit code of a follower that ended by itself."""
    from reput_server.follow.follower.states import State

    return {
        State.FELL_BEHIND: ExitCode.LOST,
        State.MASTER_LOST: ExitCode.WARNED,
        State.DIVERGED: ExitCode.DAMAGED,
        State.CORRUPT: ExitCode.DAMAGED,
        State.STORE_FAILED: ExitCode.REFUSED,
    }.get(error.state, ExitCode.UNAVAILABLE)


def _watch(
    follower: Follower, ending: GracefulStop, addresses: Addresses, *, is_once: bool, as_json: bool
) -> None:
    """Show what happens until a signal comes, or all is there, or nothing more can come."""
    import sys
    import time

    from reput_server.follow.command.display import shown

    seconds = _LIVE_SECONDS if sys.stderr.isatty() and not as_json else _QUIET_SECONDS
    ending.call(lambda: None)  # it is looked at between two waits
    with shown(follower.store, as_json=as_json, addresses=addresses) as show:
        while not ending.is_asked:
            status = follower.status()
            show(status, follower.store.plugins(), time.monotonic())
            follower.raise_end()
            if is_once and follower.wait_caught_up(seconds) and _is_saved(follower):
                break
            follower.wait_changed(status, seconds)
        follower.stop()
        show(follower.status(), follower.store.plugins(), time.monotonic())


def _is_saved(follower: Follower) -> bool:
    """Whether metadata were saved, if they are to be."""
    return not follower.config.metadata or follower.status().metadata_count > 0


@contextlib.contextmanager
def _measured(store: Store, follower: Follower, address: Address | None) -> Iterator[str]:
    if address is None:
        yield ""
        return
    from reput_server.follow.command.metrics import serving

    with serving(store, follower, address) as url:
        yield url


@contextlib.contextmanager
def _browsed(store: Store, follower: Follower, config: WebConfig | None) -> Iterator[str]:
    """Serve pages that show the store; gives their address, empty without pages."""
    if config is None:
        yield ""
        return
    from reput_server.follow.command.browsing import browsed

    with browsed(store, follower, config) as url:
        yield url


@contextlib.contextmanager
def _served(
    store: Store, addresses: tuple[Address, Address | None] | None
) -> Iterator[tuple[str, str]]:
    """Serve the store; gives the addresses of broker and name server, empty if not served."""
    if addresses is None:
        yield "", ""
        return
    from reput_server.follow.command.serving import served

    with served(store, *addresses) as found:
        yield found.broker, found.name_server or ""

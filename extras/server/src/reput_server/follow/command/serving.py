"""Serves a store that is followed to consumers and admin tools, which may only read.

A second store is opened for reading, as `reput serve --read-only` opens one in another process:
requests of clients never wait for the follower, and cannot change anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

import reput
from reput_client.remoting import address_text
from reput_server import ServerConfig, ServerError, serving
from reput_tools.cli.kit import ExitCode, Failure, check_used, follows_links, used_plugins

if TYPE_CHECKING:
    from reput import Store
    from reput_client.remoting import Address

_READER: Final = "consumequeue"
_GROUPS: Final = "consumer"


@attrs.frozen
class Served:
    """Where a store is served; texts ``HOST:PORT``."""

    broker: str
    name_server: str | None


@contextlib.contextmanager
def served(store: Store, listen: Address, name_server: Address | None) -> Iterator[Served]:
    """Serve the replica ``store`` for the time of a ``with`` block.

    Args:
        store: the replica, which is open for writing.
        listen: where the broker listens, port 0 for a free one.
        name_server: the same of the name server; None for none.

    Raises:
        Failure: the store has no queues, or an address cannot be listened on.
    """
    root = str(store.root)
    check_used(root, _READER)
    names = used_plugins(root) or ()
    cluster, _, broker = (store.master or "").partition("/")
    if not cluster:  # of a directory, which has no name
        cluster, broker = "DefaultCluster", "broker-a"
    config = ServerConfig(listen=listen, name_server=name_server, cluster=cluster)
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(
            reput.open(
                root,
                mode="r",
                plugins={*names, _GROUPS},
                config={_GROUPS: {"broker_name": broker}},
                follow_links=follows_links(),
            )
        )
        try:
            server = stack.enter_context(serving(reader, config, is_writable=False))
        except (ServerError, OSError) as error:
            text = f"{getattr(error, 'strerror', None) or error}; choose other addresses with "
            text += "--serve and --serve-namesrv"
            raise Failure(text, ExitCode.UNAVAILABLE) from None
        assert server.address is not None
        names_at = server.name_server
        yield Served(
            address_text(server.address),
            None if names_at is None else address_text(names_at),
        )

"""Opens a store for a server: with its own plugins, and with consumer groups in any case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from reput import Store

_READER: Final = "consumequeue"
_GROUPS: Final = "consumer"
_OF_A_BROKER: Final = (_READER, _GROUPS, "filter", "index", "retention", "schedule", "transaction")
"""What a new store uses, as far as it is installed."""


@contextlib.contextmanager
def opened(path: str, *, read_only: bool, config: Mapping[str, Any]) -> Iterator[Store]:
    """Open the store at ``path``, and create it if it does not exist.

    Args:
        path: the store's directory.
        read_only: whether nothing may be changed; a reader gets no options.
        config: sections of the store's configuration.

    The plugin of consumer groups derives nothing from the log; a store that does not use it does
    not later, either.

    Raises:
        Failure: the store does not use the plugin that reads queues.
        ServerError: a broker keeps topics, groups and offsets there that reput cannot read.
    """
    from reput.plugin import default_plugins
    from reput_server.brokersettings import refuse_hidden_settings
    from reput_tools.cli.kit import (
        check_store,
        check_used,
        open_to_read,
        open_to_write,
        open_with_plugin,
        used_plugins,
    )

    if not read_only:
        refuse_hidden_settings(path)
    if not read_only and not _is_store(path):
        # With a broker's sizes, as a broker may take a server's place.
        with open_to_write(
            path, create=True, plugins=_installed(), config=config, sizes="rocketmq"
        ) as store:
            yield store
        return
    root = check_store(path)
    used = used_plugins(root)
    if used is not None:
        check_used(root, _READER)
    if read_only:
        names = default_plugins() if used is None else used
        with open_to_read(root, plugins={*names, _GROUPS}) as store:
            yield store
        return
    with open_with_plugin(root, _GROUPS, config=config) as store:
        yield store


def _is_store(path: str) -> bool:
    from reput.errors import StoreNotFoundError
    from reput_tools.cli.kit import check_store

    try:
        check_store(path)
    except StoreNotFoundError:
        return False
    return True


def _installed() -> list[str]:
    from reput.plugin import installed

    found = {each.name for each in installed()}
    return [name for name in _OF_A_BROKER if name in found]

"""The plugins that a store names, and how a command uses another one only while it runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reput.errors import StoreNotFoundError, expected_at
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.storeopening import holds_a_store, look_at, open_to_write
from reput_tools.cli.kit.suggestions import did_you_mean

if TYPE_CHECKING:
    from reput import Store


def check_store(path: str) -> str:
    """Return the absolute path of the store at ``path``.

    Raises:
        StoreNotFoundError: there is no store.
    """
    if not holds_a_store(path):
        from reput.storefiles import refuse_unfinished

        refuse_unfinished(os.path.abspath(path))
        raise StoreNotFoundError(path, expected_at(path))
    return os.path.abspath(path)


def used_plugins(root: str) -> tuple[str, ...] | None:
    """Return the names in the store's manifest; None without a manifest, as after RocketMQ."""
    manifest = look_at(root).manifest
    return None if manifest is None else manifest.plugins


def check_used(root: str, plugin: str) -> None:
    """Check that the store uses a plugin.

    Raises:
        Failure: it does not use the plugin; the text names its plugins.
    """
    names = used_plugins(root)
    if names is None:
        text = f"{root}: no plugin was ever used here by reput"
        begin = f"`reput backfill {root} {plugin}` opens the store and begins"
        raise Failure(f"{text}; {_step(plugin, begin)}", ExitCode.NOT_FOUND)
    if plugin not in names:
        known = f"it uses {', '.join(names)}" if names else "it uses none"
        add = f"`reput backfill {root} {plugin}` adds it"
        hint = did_you_mean(plugin, names) or f"; {_step(plugin, add)}"
        text = f"{root}: no plugin {plugin!r} in this store; {known}{hint}"
        raise Failure(text, ExitCode.NOT_FOUND)


def _step(plugin: str, if_installed: str) -> str:
    """Return the step to a plugin that a store does not use."""
    from reput.plugin import how_to_install, installed

    offered = [found.name for found in installed()]
    if plugin in offered:
        return if_installed
    hint = did_you_mean(plugin, offered) or f" ({how_to_install(plugin)})"
    return f"and {plugin!r} is not installed{hint}"


@contextlib.contextmanager
def open_with_plugin(
    root: str, plugin: str, *, config: Mapping[str, Any] | None = None
) -> Iterator[Store]:
    """Open the store at ``root`` as its one writer, with its plugins and with ``plugin``.

    A store that does not use the plugin does not use it afterwards either, also if the caller
    fails.

    Args:
        root: the store's directory.
        plugin: name of a plugin.
        config: as for `reput.open`.
    """
    from reput.errors import ReputError
    from reput.plugin import default_plugins

    used = used_plugins(root)
    names = list(default_plugins() if used is None else used)
    if plugin in names:
        with open_to_write(root, plugins=names, config=config) as store:
            yield store
        return
    with open_to_write(root, plugins=[*names, plugin], config=config) as store:
        try:
            yield store
        except BaseException:
            with contextlib.suppress(OSError, ReputError):  # the first error is the one to show
                store.remove_plugin(plugin)
            raise
        store.wait_dispatched()
        store.remove_plugin(plugin)

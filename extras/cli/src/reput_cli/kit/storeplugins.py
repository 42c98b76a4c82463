"""The plugins that a store names, and the process that writes it, without opening it."""

from __future__ import annotations

import os

from reput.errors import EXPECTED, StoreNotFoundError
from reput_cli.kit.exitcodes import ExitCode
from reput_cli.kit.failures import Failure
from reput_cli.kit.opening import holds_a_store, look_at
from reput_cli.kit.suggesting import did_you_mean

__all__ = ["check_store", "check_used", "used_plugins"]


def check_store(path: str) -> str:
    """Return the absolute path of the store at ``path``.

    Raises:
        StoreNotFoundError: there is no store.
    """
    if not holds_a_store(path):
        from reput.storefiles import refuse_unfinished

        refuse_unfinished(os.path.abspath(path))
        raise StoreNotFoundError(path, EXPECTED)
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
        text = (
            f"{root}: no plugin was ever used here by reput; "
            f"`reput backfill {root} {plugin}` opens the store and begins"
        )
        raise Failure(text, ExitCode.NOT_FOUND)
    if plugin not in names:
        known = f"it uses {', '.join(names)}" if names else "it uses none"
        step = f"; `reput backfill {root} {plugin}` adds one that is installed"
        hint = did_you_mean(plugin, names) or step
        text = f"{root}: no plugin {plugin!r} in this store; {known}{hint}"
        raise Failure(text, ExitCode.NOT_FOUND)

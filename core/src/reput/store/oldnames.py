"""Deprecated names of plugins' methods on the store (``store.commit``), and an option of `query`.

They belong to the plugins now (`reput.Store.plugin`). For one release the methods that a plugin
offers by its hook ``reput_methods`` are found on the store, too, with a warning. The hook is called
when a program uses such a name, not when the store is opened, so its errors concern only that call.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reput.errors import PluginMethodError

if TYPE_CHECKING:
    from reput.plugin.answers import QueryResult
    from reput.store.calls.active import ActivePlugins

logger = logging.getLogger(__name__)

__all__ = ["method_of_plugin", "query_as_rocketmq"]


def method_of_plugin(active: ActivePlugins, name: str) -> Callable[..., Any]:
    """Return the method that the first plugin offers by ``name``, which the store does not have.

    One that the plugin names in ``store_methods`` comes without a warning.

    Raises:
        AttributeError: no plugin offers it.
        PluginMethodError: no plugin offers it, but one of them could not be opened.
    """
    for plugin, found in active.objects.items():
        if name in found.store_methods:
            return getattr(active.plugin(plugin), name)  # type: ignore[no-any-return]
    for plugin, hook in active.usable(lambda hooks: hooks.methods):
        method = _offered(plugin, hook).get(name)
        if callable(method):
            warnings.warn(
                f"Store.{name} is store.plugin({plugin!r}).{name} now",
                DeprecationWarning,
                stacklevel=3,
            )
            return method  # type: ignore[no-any-return]
    for plugin, _ in active.set.having(lambda hooks: hooks.methods):
        each = active.find(plugin)
        if each is not None and each.is_broken:
            text = f"it offers nothing, {name!r} included, for it could not be opened"
            raise PluginMethodError(plugin, f"{text}: {each.last_error}")
    known = ", ".join(active.objects) or "none"
    raise AttributeError(f"neither the store nor one of its plugins ({known}) has {name!r}")


def query_as_rocketmq(active: ActivePlugins) -> Callable[..., QueryResult] | None:
    """Return the method by which a plugin answers queries as RocketMQ does; None without one."""
    text = "Store.query(compat=True) is store.plugin('index').query_as_rocketmq now"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    for name, _ in active.usable(lambda hooks: hooks.query):
        method = getattr(active.objects[name], "query_as_rocketmq", None)
        if callable(method):
            return method  # type: ignore[no-any-return]
    return None


def _offered(plugin: str, hook: Callable[[], Any]) -> dict[str, Any]:
    try:
        return dict(hook())
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        logger.error("methods not offered plugin=%s error=%r", plugin, error)
        return {}

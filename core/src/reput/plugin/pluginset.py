"""`PluginSet`: the plugins that one store uses, in dispatch order.

An installed plugin is active only in stores that name it. Each store has its own plugin objects.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Self

from reput.errors import ConfigError, PluginError, PluginOrderError
from reput.files.filenames import is_safe_name
from reput.plugin.base import Plugin
from reput.plugin.discovery import InstalledPlugin, installed, plugin_of, plugins_argument
from reput.plugin.hooktable import Hook, PluginHooks

logger = logging.getLogger(__name__)

_NAME_MAX: Final = 249  # bytes: an entry of the state file has the name and 6 bytes more

CORE_SECTIONS = ("commitlog", "dispatch")
"""Configuration sections of the core; no plugin may have such a name."""


class PluginSet:
    """The active plugins of one store, checked and in dispatch order."""

    def __init__(
        self,
        wanted: Iterable[str | Plugin],
        config: Mapping[str, Mapping[str, Any]],
        offered: Iterable[InstalledPlugin] | None = None,
    ) -> None:
        """Load, configure, check and order the plugins.

        Args:
            wanted: names of installed plugins, or plugin objects.
            config: options by plugin, and sections of the core.
            offered: the installed plugins, if the caller has looked them up already.

        Raises:
            PluginNotFoundError: a plugin is not installed.
            PluginError: a hook that is not marked, unknown, or has unknown arguments.
            PluginOrderError: a cycle, or a requirement that is not active.
            ConfigError: a section for no active plugin, or a wrong option.
        """
        wanted = list(wanted)
        # Once only: looking up installed plugins reads a file of each distribution.
        if offered is None:
            offered = installed() if any(isinstance(item, str) for item in wanted) else []
        plugins = dict(plugin_of(item, config, offered) for item in wanted)
        for section in config:
            if section not in plugins and section not in CORE_SECTIONS:
                known = tuple(sorted([*plugins, *CORE_SECTIONS]))
                raise ConfigError(section, "(section)", "no such section", known)
        self._register(plugins, {})

    def _register(self, plugins: Mapping[str, Plugin], known: Mapping[str, PluginHooks]) -> None:
        self.plugins: dict[str, Plugin] = {}
        """Plugin objects by name, in dispatch order."""
        self.hooks: dict[str, PluginHooks] = {}
        """Each plugin's hooks, in the same order."""
        for name in dispatch_order(plugins):
            if name in CORE_SECTIONS:
                raise PluginError(name, "no plugin can have this name: a section of the core has")
            if not (is_safe_name(name) and name.isprintable() and len(name.encode()) <= _NAME_MAX):
                reason = f"files are named after it, and it can have {_NAME_MAX} printable bytes"
                raise PluginError(name, f"no plugin can have this name: {reason}")
            self.hooks[name] = known.get(name) or PluginHooks.of(name, plugins[name])
            self.plugins[name] = plugins[name]

    def _with(self, plugins: Mapping[str, Plugin]) -> Self:
        made = type(self).__new__(type(self))
        made._register(plugins, self.hooks)
        return made

    def with_plugin(self, name: str, plugin: Plugin) -> Self:
        """Return a set with the same plugin objects and one more.

        Raises:
            PluginError: as for a new set.
        """
        return self._with({**self.plugins, name: plugin})

    def without(self, name: str) -> Self:
        """Return a set with the same plugin objects but one.

        Raises:
            PluginOrderError: another plugin requires it.
        """
        return self._with({key: value for key, value in self.plugins.items() if key != name})

    def having(self, hook: str) -> list[tuple[str, Hook]]:
        """Return the plugins that implement one hook, in dispatch order.

        For a hook whose first answer counts, plugins marked ``tryfirst`` come first, ``trylast``
        last.

        Args:
            hook: its name, without the prefix.

        Returns:
            Pairs of a plugin's name and its function.
        """
        found = [
            (hooks.ranks[hook], name, function)
            for name, hooks in self.hooks.items()
            if (function := getattr(hooks, hook)) is not None
        ]
        found.sort(key=operator.itemgetter(0))
        return list(map(operator.itemgetter(1, 2), found))


def default_plugins(
    config: Mapping[str, Mapping[str, Any]] | None = None,
    offered: Iterable[InstalledPlugin] | None = None,
) -> list[str]:
    """Return the names of the plugins that a new store uses if none are named.

    Only these plugins are imported. One that no store could open (it cannot be imported, made, or
    put in order with the others) is left out, with a warning in the log.

    Args:
        config: configuration sections that the store will have.
        offered: the installed plugins, if the caller has looked them up already.

    Raises:
        ConfigError: a wrong option in ``config``.
    """
    config = config or {}
    plugins: dict[str, Plugin] = {}
    for found in installed() if offered is None else offered:
        if found.is_default:
            try:
                plugins |= [plugin_of(found.name, config, [found])]
            except (PluginError, ConfigError) as error:
                if found.name in config and isinstance(error, ConfigError):
                    raise
                _leave_out(found.name, error)
    while True:
        try:
            PluginSet([], {})._with(plugins)
        except PluginError as error:
            del plugins[error.plugin]
            _leave_out(error.plugin, error)
        else:
            return sorted(plugins)


def _leave_out(name: str, error: Exception) -> None:
    logger.warning("left out a default plugin=%s error=%s", name, error)


def dispatch_order(plugins: Mapping[str, Plugin]) -> list[str]:
    """Return names in dispatch order: as ``runs_after`` and ``requires`` declare, ties by name.

    Raises:
        PluginOrderError: a cycle, or a requirement that is not active.
    """
    before: dict[str, set[str]] = {}
    for name, plugin in plugins.items():
        missing = plugin.requires - plugins.keys()
        if missing:
            reason = (
                f"needs {', '.join(sorted(missing))}, which this store does not use; open it with "
                f"{plugins_argument([*plugins, *sorted(missing)])}"
            )
            raise PluginOrderError(name, reason)
        before[name] = (set(plugin.runs_after) | set(plugin.requires)) & plugins.keys()
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        stuck = sorted({*error.args[1]})
        text = f"each waits for another: {', '.join(stuck)}"
        raise PluginOrderError(stuck[0], text) from None
    order: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return order

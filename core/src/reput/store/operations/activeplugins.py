"""`ActivePlugins`: the plugins that one open store uses, by name and by hook."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.errors import NoReaderError, PluginError, ReputError
from reput.plugin.base import Plugin
from reput.plugin.discovery import (
    did_you_mean,
    how_to_install,
    is_own,
    plugin_name,
    plugins_argument,
)
from reput.record.messages.message import shown
from reput.store.operations.arguments import names_argument

if TYPE_CHECKING:
    from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext
    from reput.dispatch.runtime.pluginstate import PluginState
    from reput.plugin.discovery import InstalledPlugin
    from reput.plugin.hooktable import Hook
    from reput.plugin.pluginset import PluginSet

_READER: Final = "consumequeue"  # what an error text says to install for reading


class ActivePlugins:
    """The plugins of an open store; in a writable store they may change at any moment.

    Args:
        plugins: the first set.
        board: the plugins' runners.
        state: returns a plugin's state for `reput.Store.plugins`.
        installed: the installed plugins, by name.
    """

    def __init__(
        self,
        plugins: PluginSet,
        board: RunnerContext,
        state: Callable[[PluginRunner, str], PluginState],
        installed: Mapping[str, InstalledPlugin],
    ) -> None:
        self.set = plugins
        """Replaced as a whole, by `use`."""
        self.readers: list[tuple[str, Hook, bool]] = []
        """Names and functions of the plugins that read queues, and whether each takes a filter:
        looked up once, as queues are read often; replaced as a whole."""
        self.read_count = 0
        """Reads of queues that were answered. Not locked: of two at once one may be missing."""
        self.message_count = 0
        """Messages that were returned by these."""
        self._board = board
        self._state = state
        self._installed = installed

    def use(self, plugins: PluginSet) -> None:
        """Replace the set, whose plugins are open."""
        self.set = plugins
        self.readers = [
            (name, read, "filter" in plugins.hooks[name].takes["read"])
            for name, read in self.usable("read")
        ]

    def find(self, name: str) -> PluginRunner | None:
        """Return a plugin's runner; None if the plugin was removed a moment ago."""
        return self._board.runners.get(name)

    @property
    def objects(self) -> Mapping[str, Plugin]:
        """The plugins by name, in dispatch order."""
        return self.set.plugins

    def usable(self, hook: str) -> list[tuple[str, Hook]]:
        """Return `PluginSet.having` of a hook, without plugins that could not be opened."""
        return [
            (name, function)
            for name, function in self.set.having(hook)
            if (runner := self.find(name)) is not None and not runner.is_broken
        ]

    def states(self) -> list[PluginState]:
        """Return state, progress, lag and figures of each plugin, in dispatch order."""
        runners = [runner for name in self.objects if (runner := self.find(name)) is not None]
        return [self._state(runner, self._version(runner.name)) for runner in runners]

    def _version(self, name: str) -> str:
        found = self._installed.get(name)
        return "" if found is None else found.version

    def plugin(self, which: Any) -> Plugin:
        """Return the object of an active plugin that could be opened.

        Raises:
            PluginError: the store does not use it, or it could not be opened.
            TypeError: ``which`` is neither a name nor a class.
        """
        name = self._name_of(which)
        runner, plugin = self.find(name), self.objects.get(name)
        if runner is None or plugin is None:
            raise self.unused(name)
        if runner.is_broken:
            reason = f"it offers nothing, for it could not be opened: {runner.last_error}"
            raise PluginError(name, reason)
        return plugin

    def method(self, name: str) -> Callable[..., Any]:
        """Return the method that a plugin offers on the store itself, as ``store_methods`` says.

        Raises:
            AttributeError: no plugin offers it.
            PluginError: the plugin that offers it could not be opened.
        """
        for plugin, found in self.objects.items():
            if name in found.store_methods:
                return getattr(self.plugin(plugin), name)  # type: ignore[no-any-return]
        known = ", ".join(self.objects) or "none"
        text = f"neither the store nor one of its plugins ({known}) has {name!r}"
        offering = self._offering(name)
        step = "" if offering is None else f"; {self._how_to_add(offering)}"
        raise AttributeError(f"{text}{step}")

    def _offering(self, method: str) -> str | None:
        """Return the installed plugin that offers a method on the store; None if none does.

        Only reput's own plugins, and one that has the method's name, are imported for this.
        """
        for name, found in self._installed.items():
            if name not in self.objects and (name == method or is_own(name)):
                with contextlib.suppress(PluginError):
                    if method in found.load().store_methods:
                        return name
        return None

    def _name_of(self, which: Any) -> str:
        if isinstance(which, type) and issubclass(which, Plugin):
            of_class = (name for name, each in self.objects.items() if isinstance(each, which))
            return next(of_class, plugin_name(which))
        if isinstance(which, str):
            return which
        text = "a plugin's name, or a subclass of reput.Plugin expected"
        raise TypeError(f"which: {text}, found {shown(which)}")

    def used(self, argument: str, names: Any) -> set[str]:
        """Return ``names``, an argument of a public method, as a set of active plugins.

        Raises:
            PluginError: the store does not use one of them.
            TypeError: ``names`` are not texts; the error names ``argument``.
        """
        chosen = set(names_argument(argument, names))
        unknown = sorted(chosen - self.objects.keys())
        if unknown:
            raise self.unused(unknown[0])
        return chosen

    def unused(self, name: str) -> PluginError:
        """Return the error for the name of a plugin that the store does not use."""
        known = ", ".join(self.objects) or "none"
        if name in self._installed:
            step = f"; {self._how_to_add(name)}"
        else:
            near = did_you_mean(name, {*self.objects, *self._installed})
            step = near or f"; it is not installed ({how_to_install(name)})"
        return PluginError(name, f"the store does not use it; it uses {known}{step}")

    def _how_to_add(self, name: str) -> str:
        return f"open the store with {plugins_argument([*self._named(), name])}"

    def _named(self) -> list[str | Plugin]:
        """Return what `reput.open` takes for these plugins: a name where there is one."""
        return [
            name if name in self._installed else plugin for name, plugin in self.objects.items()
        ]

    def no_answer(self, hook: str, plugin: str = _READER) -> ReputError:
        """Return the error for a read that no plugin answers: it is missing, or broken.

        Args:
            hook: the hook of the read; no plugin, or only broken plugins, implement it.
            plugin: what to install if no plugin implements it.
        """
        for name, _ in self.set.having(hook):
            runner = self.find(name)
            if runner is None or runner.last_error is None:  # it leaves the read to another one
                continue
            return PluginError(
                name,
                f"it does not answer {hook}, for it could not be opened: {runner.last_error}",
            )
        installed = self._installed.keys() & {plugin}
        return NoReaderError(hook, plugin, self._how_to_add(plugin) if installed else "")

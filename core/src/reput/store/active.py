"""`ActivePlugins`: the plugins that one open store uses, by name and by hook, and how each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reput.errors import NoReaderError, PluginError, ReputError
from reput.plugin.base import Plugin
from reput.plugin.host.discovery import plugin_name
from reput.record.plain import shown
from reput.store.arguments import names_argument

if TYPE_CHECKING:
    from reput.dispatch.phase import PluginState
    from reput.dispatch.runner import Board, PluginRunner
    from reput.plugin.host.discovery import InstalledPlugin
    from reput.plugin.host.hooktable import PluginHooks
    from reput.plugin.host.pluginset import PluginSet

__all__ = ["ActivePlugins"]

_Hook = TypeVar("_Hook")
_READER: Final = "reput-consumequeue"  # what to install where nothing can read; for an error text


class ActivePlugins:
    """The plugins of an open store. While a store is written they come and go at any moment.

    Args:
        plugins: the set to begin with.
        board: how each is driven.
        state: what `reput.Store.plugins` shows of one.
        installed: the installed plugins, by name.
    """

    def __init__(
        self,
        plugins: PluginSet,
        board: Board,
        state: Callable[[PluginRunner, str], PluginState],
        installed: Mapping[str, InstalledPlugin],
    ) -> None:
        self.set = plugins
        """Replaced whole, by `use`."""
        self._board = board
        self._state = state
        self._installed = installed

    def use(self, plugins: PluginSet) -> None:
        """Go on with another set."""
        self.set = plugins

    def find(self, name: str) -> PluginRunner | None:
        """How a plugin is driven; None where it was taken away a moment ago."""
        return self._board.runners.get(name)

    @property
    def objects(self) -> Mapping[str, Plugin]:
        """The plugins by name, in dispatch order."""
        return self.set.plugins

    def usable(self, hook: Callable[[PluginHooks], _Hook | None]) -> list[tuple[str, _Hook]]:
        """Implementations of a hook of the plugins that could be opened; see `PluginSet.having`."""
        return [
            (name, function)
            for name, function in self.set.having(hook)
            if (each := self.find(name)) is not None and not each.is_broken
        ]

    def states(self) -> list[PluginState]:
        """State, progress, lag and figures of each, in dispatch order."""
        runners = [each for name in self.objects if (each := self.find(name)) is not None]
        return [self._state(each, self._version(each.name)) for each in runners]

    def _version(self, name: str) -> str:
        found = self._installed.get(name)
        return "" if found is None else found.version

    def plugin(self, which: Any) -> Plugin:
        """The object of a plugin that the store uses, and that could be opened.

        Args:
            which: its name, or its class.

        Raises:
            PluginError: there is no such one, or it could not be opened.
            TypeError: ``which`` is neither.
        """
        name = self._name_of(which)
        each, plugin = self.find(name), self.objects.get(name)
        if each is None or plugin is None:
            raise self.unused(name)
        if each.is_broken:
            reason = f"it offers nothing, for it could not be opened: {each.last_error}"
            raise PluginError(name, reason)
        return plugin

    def _name_of(self, which: Any) -> str:
        if isinstance(which, type) and issubclass(which, Plugin):
            of_class = (name for name, each in self.objects.items() if isinstance(each, which))
            return next(of_class, plugin_name(which))
        if isinstance(which, str):
            return which
        text = "a plugin's name, or a subclass of reput.Plugin expected"
        raise TypeError(f"which: {text}, found {shown(which)}")

    def used(self, argument: str, names: Any) -> set[str]:
        """Names of plugins that the store uses, as a caller gave them.

        Raises:
            PluginError: one of them it does not use.
            TypeError: ``names``, the argument of that name, holds something else.
        """
        chosen = set(names_argument(argument, names))
        unknown = sorted(chosen - self.objects.keys())
        if unknown:
            raise self.unused(unknown[0])
        return chosen

    def unused(self, name: str) -> PluginError:
        """The error of a call that names a plugin which the store does not use."""
        known = ", ".join(self.objects) or "none"
        return PluginError(name, f"the store does not use it; it uses {known}")

    def no_answer(
        self,
        hook: Callable[[PluginHooks], object | None],
        operation: str,
        distribution: str = _READER,
    ) -> ReputError:
        """Why no plugin answers a read: there is none for it, or it could not be opened.

        Args:
            hook: picks the hook that none of them implements, or only broken ones.
            operation: what was asked, for the text.
            distribution: what to install where there is none.
        """
        for name, _ in self.set.having(hook):
            each = self.find(name)
            if each is None:
                continue
            return PluginError(
                name,
                f"it does not answer {operation}, for it could not be opened: {each.last_error}",
            )
        return NoReaderError(operation, distribution)

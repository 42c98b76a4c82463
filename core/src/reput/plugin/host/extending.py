"""`hooks_of`: asks a plugin for hooks that are not the store's, but another distribution's.

A tool that needs more of plugins than a store does has a module of hook specifications of its own,
marked with `hookspec`. A plugin implements them as it implements the store's, and works without
the tool: the store ignores hooks that are marked ``@reput.hookimpl(optionalhook=True)``. Each hook
begins with the name of the package that specifies it, as the store's begin with ``reput_``, so that
two tools never mean different things by one name, and a misspelt hook is found.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from reput.errors import PluginError
from reput.plugin.hookspecs import PROJECT

if TYPE_CHECKING:
    from reput.plugin.base import Plugin

__all__ = ["hooks_of"]


class _Manager(pluggy.PluginManager):
    """Knows the hooks of one package, and no others."""

    def __init__(self, specs: ModuleType) -> None:
        super().__init__(PROJECT)
        self.owner = specs.__name__.partition(".")[0]
        self.prefix = f"{self.owner}_"
        self.add_hookspecs(specs)
        self.known = sorted(vars(self.hook))
        other = [name for name in self.known if not name.startswith(self.prefix)]
        if other:
            raise ValueError(f"{specs.__name__}: {other[0]} does not begin with {self.prefix}")

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Leave out the store's hooks and those of other packages."""
        return super().parse_hookimpl_opts(plugin, name) if name.startswith(self.prefix) else None

    def fault_of(self, plugin: Plugin, hook: str) -> str:
        """Return what is wrong with a plugin's method of a hook's name; empty if nothing is."""
        if hook not in self.known:
            return f"{hook} is no hook of {self.owner}; known: {', '.join(self.known)}"
        if self.parse_hookimpl_opts(plugin, hook) is None:
            return f"{hook} is not marked with @reput.hookimpl(optionalhook=True)"
        offered = getattr(self.hook, hook).spec.argnames
        taken = inspect.signature(getattr(plugin, hook)).parameters
        unknown = ", ".join(sorted(taken.keys() - set(offered)))
        has = ", ".join(offered) or "no arguments"
        return f"{hook} takes {unknown}; the hook has {has}" if unknown else ""


def hooks_of(name: str, plugin: Plugin, specs: ModuleType) -> pluggy.HookRelay:
    """Return a plugin's hooks of another distribution, checked against its specifications.

        found = hooks_of("index", plugin, reput_offline.hookspecs).reput_offline_rebuilt_from()

    As everywhere in pluggy, a hook is called by keyword with all of its arguments. It returns the
    plugin's answer if its specification has ``firstresult=True``, and None if the plugin does not
    implement it; otherwise it returns a list with the answer, or an empty list.

    Args:
        name: the plugin's name, for error texts.
        plugin: the plugin's object. Nothing is called on it yet.
        specs: the module of specifications.

    Raises:
        PluginError: a hook that is not marked, that the package does not have, or with arguments
            that it does not have.
        ValueError: ``specs`` has no specification, or one that does not begin with the package's
            name.
    """
    manager = _Manager(specs)
    for hook in dir(type(plugin)):
        if hook.startswith(manager.prefix) and callable(getattr(type(plugin), hook)):
            reason = manager.fault_of(plugin, hook)
            if reason:
                raise PluginError(name, reason)
    try:
        manager.register(plugin, name)
    except pluggy.PluginValidationError as error:  # a wrapper that is not written as one
        raise PluginError(name, " ".join(str(error).split())) from error
    return manager.hook

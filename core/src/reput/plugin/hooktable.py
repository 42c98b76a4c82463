"""The hooks of one plugin, checked once: `PluginHooks` of a store, `hooks_of` of another package.

A store calls each plugin on its own thread and with its own time limit, so it calls a plugin's
functions and not pluggy's way of calling all plugins at once. A tool that needs more of plugins has
a module of hook specifications of its own, marked with `hookspec`, and gets them by `hooks_of`. A
plugin implements them marked with ``@reput.hookimpl(optionalhook=True)``, and works without the
tool. Each hook begins with the name of the package that specifies it, so that a misspelt hook is
found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

import pluggy

from reput.errors import PluginError
from reput.plugin import hookspecs

if TYPE_CHECKING:
    from reput.plugin.base import Plugin

_PREFIX: Final = "reput_"
_WRAPPERS: Final = ("wrapper", "hookwrapper", "specname")
_RANKS: Final = ("tryfirst", "trylast")

Hook = Callable[..., Any]
"""A plugin's function; it is called by keyword, with all arguments that the hook has."""
HOOK_NAMES: Final = tuple(
    name.removeprefix(_PREFIX) for name in vars(hookspecs) if name.startswith(_PREFIX)
)
"""A store's hooks without their prefix, in life-cycle order."""


class PluginHooks:
    """For each hook of a store, as an attribute without its prefix, the plugin's function or None.

    Attributes:
        takes: arguments that the plugin's function takes, by hook.
        ranks: when the plugin is asked, by hook: -1 early, 0, 1 late.
    """

    def __init__(self, **functions: Hook) -> None:
        """Take functions as the hooks of their names; `of` checks those of a plugin."""
        self.takes: dict[str, frozenset[str]] = {}
        self.ranks: dict[str, int] = {}
        vars(self).update(dict.fromkeys(HOOK_NAMES) | functions)

    if TYPE_CHECKING:  # the attributes are the functions of `hookspecs`

        def __getattr__(self, hook: str) -> Hook | None: ...

    @classmethod
    def of(cls, name: str, plugin: Plugin) -> Self:
        """Check a plugin's hooks and build its table.

        Args:
            name: the plugin's name, for error texts.
            plugin: the plugin's object.

        Raises:
            PluginError: a hook that is not marked, unknown, has unknown arguments, or is marked
                with an option that reput ignores.
        """
        found, kind = cls(), type(plugin)
        known = _known.get(kind)
        if known is None:
            known = _known[kind] = [
                (hook, taken, taken == offered, made.trylast - made.tryfirst)
                for hook, taken, offered, made in _contract().implementations(name, plugin)
            ]
        for hook, taken, is_whole, rank in known:
            short, function = hook.removeprefix(_PREFIX), getattr(plugin, hook)
            found.takes[short], found.ranks[short] = taken, rank
            vars(found)[short] = function if is_whole else _passing(function, taken)
        return found


_known: WeakKeyDictionary[type, list[tuple[str, frozenset[str], bool, int]]] = WeakKeyDictionary()
"""Of each class of plugins that was checked: its hooks, the arguments that they take, whether these
are all, and their ranks. An opening checks each class only once in a process."""


def hooks_of(name: str, plugin: Plugin, specs: ModuleType) -> pluggy.HookRelay:
    """Return a plugin's hooks of another distribution, checked against its specifications.

        size = hooks_of("index", plugin, acme.hookspecs).acme_size(path=path)

    A hook is called by keyword with all of its arguments. If its specification has
    ``firstresult=True``, it returns the plugin's answer, and None if the plugin does not implement
    it; otherwise a list with the answer, or an empty list.

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
    manager.implementations(name, plugin)
    manager.register(plugin, name)
    return manager.hook


class _Manager(pluggy.PluginManager):
    """Knows the hooks of one package, and no others."""

    def __init__(self, specs: ModuleType) -> None:
        super().__init__(hookspecs.PROJECT)
        self.owner = specs.__name__.partition(".")[0]
        self.is_of_store = specs is hookspecs
        self.add_hookspecs(specs)
        self.known = sorted(vars(self.hook))
        for name in self.known:
            if not name.startswith(f"{self.owner}_"):
                raise ValueError(f"{specs.__name__}: {name} does not begin with {self.owner}_")

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Leave out hooks of other packages."""
        return super().parse_hookimpl_opts(plugin, name) if name in self.known else None

    def implementations(
        self, name: str, plugin: Plugin
    ) -> list[tuple[str, frozenset[str], frozenset[str], pluggy.HookImpl]]:
        """Return each hook that a plugin has, with arguments taken and offered, and the function.

        Raises:
            PluginError: as for `PluginHooks.of` and `hooks_of`.
        """
        kind, found = type(plugin), []
        for hook in dir(kind):
            if not hook.startswith(f"{self.owner}_") or not callable(getattr(kind, hook)):
                continue
            marked = super().parse_hookimpl_opts(plugin, hook)
            if hook not in self.known:
                # A tool whose name begins with the store's has hooks that do, too.
                if self.is_of_store and marked is not None and marked["optionalhook"]:
                    continue
                known = ", ".join(self.known)
                raise PluginError(name, f"{hook} is not a hook of {self.owner}; known: {known}")
            if marked is None:
                mark = "@reput.hookimpl" + "(optionalhook=True)" * (not self.is_of_store)
                raise PluginError(name, f"{hook} is not marked with {mark}")
            spec = getattr(self.hook, hook).spec
            # Batches go through plugins by `runs_after`.
            ignored = _WRAPPERS if spec.opts["firstresult"] else _WRAPPERS + _RANKS
            for option in ignored:
                if marked.get(option):
                    raise PluginError(name, f"{hook} is marked with {option}, which reput ignores")
            made = pluggy.HookImpl(plugin, name, getattr(plugin, hook), marked)
            # Arguments with a default, too: the plugin has the default for calls of its own.
            taken, offered = frozenset(made.argnames + made.kwargnames), frozenset(spec.argnames)
            if taken - offered:
                unknown = ", ".join(sorted(taken - offered))
                has = ", ".join(spec.argnames) or "no arguments"
                raise PluginError(name, f"{hook} takes {unknown}; the hook has {has}")
            found.append((hook, taken, offered, made))
        return found


@functools.cache
def _contract() -> _Manager:
    """Return the store's manager. No plugin is registered in it, which would take longer."""
    return _Manager(hookspecs)


def _passing(function: Hook, taken: frozenset[str]) -> Hook:
    """Return a function that takes all of the hook's arguments and passes on those ``taken``."""

    @functools.wraps(function)  # with its mark
    def call(**arguments: Any) -> Any:
        return function(**{name: arguments[name] for name in taken})

    return call

"""Which plugins there are, which a store uses, and in what order they see its messages.

Installed is not active: plugins are found through the entry-point group ``reput.plugins`` without
importing any; only those that a store names are loaded. Each store has a plugin manager and plugin
objects of its own.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Self

import attrs
import pluggy

from reput.errors import (
    ConfigError,
    PluginError,
    PluginNotFoundError,
    PluginOrderError,
    known_names,
)
from reput.files.names import is_safe_name
from reput.plugin import hookspecs
from reput.plugin.base import Plugin

__all__ = [
    "CORE_SECTIONS",
    "ENTRY_POINT_GROUP",
    "InstalledPlugin",
    "PlanStep",
    "PluginSet",
    "installed",
    "load_plugin",
    "plugin_name",
]

ENTRY_POINT_GROUP = "reput.plugins"
CORE_SECTIONS = ("commitlog", "dispatch", "retention")
"""Configuration sections that are the core's own; no plugin can have such a name."""
_PREFIX = "reput_"


@attrs.frozen
class InstalledPlugin:
    """A plugin that some installed distribution offers; not imported."""

    name: str
    distribution: str
    version: str
    value: str
    """Module and class, as the entry point says."""
    entry_point: metadata.EntryPoint = attrs.field(repr=False)

    def load(self) -> type[Plugin]:
        """Import the plugin's class.

        Raises:
            PluginError: it cannot be imported, or is no plugin.
        """
        try:
            found = self.entry_point.load()
        except Exception as error:
            reason = (
                f"{self.value} of {self.distribution} {self.version} cannot be imported: {error}"
            )
            raise PluginError(self.name, reason) from error
        if not (isinstance(found, type) and issubclass(found, Plugin)):
            raise PluginError(self.name, f"{self.value} is no subclass of reput.Plugin")
        return found


def installed() -> list[InstalledPlugin]:
    """All installed plugins, by name. Of two with one name, the first on the path counts."""
    found: dict[str, InstalledPlugin] = {}
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        distribution = entry_point.dist
        found.setdefault(
            entry_point.name,
            InstalledPlugin(
                entry_point.name,
                distribution.name if distribution is not None else "?",
                distribution.version if distribution is not None else "?",
                entry_point.value,
                entry_point,
            ),
        )
    return [found[name] for name in sorted(found)]


def plugin_name(plugin: Plugin | type[Plugin]) -> str:
    """Name of a plugin handed over as an object: its ``name``, or its class's, shortened."""
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return getattr(kind, "name", "") or kind.__name__.removesuffix("Plugin").lower()


def default_plugins() -> list[str]:
    """Names of installed plugins that are part of a new store whose maker names none."""
    return [found.name for found in installed() if found.load().default]


class _PluginManager(pluggy.PluginManager):
    """Looks at hooks only: older releases of pluggy read every attribute of a plugin's object."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Options of a hook implementation; None for what is none."""
        if not name.startswith(_PREFIX):
            return None
        return super().parse_hookimpl_opts(plugin, name)


@attrs.frozen
class PlanStep:
    """One plugin in the order in which batches go to them."""

    name: str
    runs_after: tuple[str, ...]
    """Active plugins that see each batch before it, because it said so."""
    requires: tuple[str, ...]
    """Active plugins without which it does not run."""
    required_by: tuple[str, ...]
    hooks: tuple[str, ...]
    """Hooks that it implements, without their prefix."""


class PluginSet:
    """The active plugins of one store, checked and in dispatch order."""

    def __init__(
        self, wanted: Iterable[str | Plugin], config: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Load, configure, check and order the plugins.

        Raises:
            PluginNotFoundError: one is not installed.
            PluginError: a hook that is not marked, unknown, or has unknown arguments.
            PluginOrderError: a cycle, or a requirement that is not active.
            ConfigError: a section for no active plugin, or a wrong option.
        """
        wanted = list(wanted)
        # Once: what is installed is looked for in files, and each has its description read.
        offered = installed() if any(isinstance(item, str) for item in wanted) else []
        plugins = dict(_load(item, config, offered) for item in wanted)
        for section in config:
            if section not in plugins and section not in CORE_SECTIONS:
                known = known_names([*plugins, *CORE_SECTIONS])
                raise ConfigError(section, "(section)", "no such section", known)
        self._register(plugins)

    def _register(self, plugins: Mapping[str, Plugin]) -> None:
        self.manager = _PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: dict[str, Plugin] = {}
        """Plugin objects by name, in dispatch order."""
        for name in dispatch_order(plugins):
            if name in CORE_SECTIONS:
                raise PluginError(name, "no plugin can have this name: a section of the core has")
            if not is_safe_name(name):
                raise PluginError(name, "no plugin can have this name: files are named after it")
            _check_hooks(name, plugins[name])
            try:
                self.manager.register(plugins[name], name)
            except pluggy.PluginValidationError as error:
                raise PluginError(name, str(error)) from error
            self.plugins[name] = plugins[name]

    @classmethod
    def _of(cls, plugins: Mapping[str, Plugin]) -> Self:
        made = cls.__new__(cls)
        made._register(plugins)
        return made

    def with_plugin(self, name: str, plugin: Plugin) -> Self:
        """The set with one plugin more; the objects are the same.

        Raises:
            PluginError: as for a new set.
        """
        return self._of({**self.plugins, name: plugin})

    def without(self, name: str) -> Self:
        """The set with one plugin less.

        Raises:
            PluginOrderError: another one requires it.
        """
        return self._of({key: value for key, value in self.plugins.items() if key != name})

    def plan(self) -> list[PlanStep]:
        """Who sees a batch when, and who needs whom, in dispatch order."""
        active = self.plugins
        return [
            PlanStep(
                name,
                tuple(sorted(set(plugin.runs_after) & active.keys())),
                tuple(sorted(plugin.requires)),
                tuple(sorted(key for key, other in active.items() if name in other.requires)),
                tuple(
                    hook.removeprefix(_PREFIX)
                    for hook in vars(hookspecs)
                    if hook.startswith(_PREFIX) and hasattr(type(plugin), hook)
                ),
            )
            for name, plugin in active.items()
        ]

    def implementing(self, hook: str) -> list[tuple[str, Any]]:
        """``(name, bound method)`` of the plugins that implement ``hook``, in dispatch order.

        Where the first answer counts, those marked ``tryfirst`` come first, ``trylast`` last.
        """
        caller = getattr(self.manager.hook, hook)
        functions = {each.plugin_name: each for each in caller.get_hookimpls()}
        names = [name for name in self.plugins if name in functions]
        if caller.spec is not None and caller.spec.opts["firstresult"]:
            # One may ask to answer before the others, or behind them, whoever is given batches
            # first; those that do not stay in dispatch order.
            names.sort(key=lambda name: functions[name].trylast - functions[name].tryfirst)
        return [(name, _by_accepted_arguments(functions[name])) for name in names]

    def first(self, hook: str, **arguments: Any) -> Any:
        """Answer of the first plugin in dispatch order that gives one; None without."""
        for _, function in self.implementing(hook):
            answer = function(**arguments)
            if answer is not None:
                return answer
        return None


def _by_accepted_arguments(implementation: Any) -> Any:
    """A function that takes all of the hook's arguments and passes those that are asked for."""
    # Also those with a default, which it has for calls of its own.
    accepted = frozenset((*implementation.argnames, *implementation.kwargnames))
    function = implementation.function

    def call(**arguments: Any) -> Any:
        return function(**{name: arguments[name] for name in accepted})

    call.accepted = accepted  # type: ignore[attr-defined]
    return call


def load_plugin(item: str | Plugin, options: Mapping[str, Any]) -> tuple[str, Plugin]:
    """Name and object of a plugin that is named, or handed over as it is.

    Raises:
        PluginNotFoundError: not installed.
        PluginError: no plugin.
        ConfigError: a wrong option.
    """
    name = item if isinstance(item, str) else ""
    return _load(item, {name: options}, installed() if name else [])


def _load(
    item: Any,
    config: Mapping[str, Mapping[str, Any]],
    offered: Iterable[InstalledPlugin],
) -> tuple[str, Plugin]:
    if isinstance(item, Plugin):
        return plugin_name(item), item
    if isinstance(item, type) and issubclass(item, Plugin):
        reason = f"a class was given; give an object of it: {item.__name__}()"
        raise PluginError(plugin_name(item), reason)
    if not isinstance(item, str):
        raise PluginError(str(item), "a plugin's name, or a reput.Plugin object expected")
    known = {found.name: found for found in offered}
    if item not in known:
        raise PluginNotFoundError(
            item,
            f"not installed; installed are: {', '.join(known) or 'none'} "
            f"(a first-party one comes with: pip install reput-{item})",
        )
    return item, known[item].load().from_section(item, config.get(item, {}))


def dispatch_order(plugins: Mapping[str, Plugin]) -> list[str]:
    """Names in the order in which batches go to them: declared order first, then by name.

    Raises:
        PluginOrderError: a cycle, or a requirement that is not active.
    """
    before: dict[str, set[str]] = {}
    for name, plugin in plugins.items():
        missing = plugin.requires - plugins.keys()
        if missing:
            raise PluginOrderError(
                name, f"needs {', '.join(sorted(missing))}, which this store does not use"
            )
        before[name] = (set(plugin.runs_after) | set(plugin.requires)) & plugins.keys()
    order: list[str] = []
    while len(order) < len(plugins):
        ready = sorted(name for name in plugins if name not in order and before[name] <= set(order))
        if not ready:
            waiting = {name: before[name] - set(order) for name in plugins if name not in order}
            stuck = _cycle(waiting)
            raise PluginOrderError(stuck[0], f"each waits for another: {', '.join(stuck)}")
        order.append(ready[0])
    return order


def _cycle(before: Mapping[str, set[str]]) -> list[str]:
    """Names of plugins that wait for each other in a ring; each of ``before`` waits for some."""
    path = [min(before)]
    while True:
        following = min(before[path[-1]])
        if following in path:
            return sorted(path[path.index(following) :])
        path.append(following)


def _refused_options(hook: str, marked: Mapping[str, Any]) -> list[str]:
    """Options of ``@reput.hookimpl`` that a store would not heed."""
    refused = ["wrapper", "hookwrapper", "specname"]
    spec = getattr(getattr(hookspecs, hook), f"{hookspecs.PROJECT}_spec")
    if not spec["firstresult"]:
        refused += ["tryfirst", "trylast"]  # batches go through plugins by `runs_after`
    return [option for option in refused if marked.get(option)]


def _check_hooks(name: str, plugin: Plugin) -> None:
    """Every public ``reput_`` method is a known hook, marked, with arguments that the hook has."""
    known = {hook for hook in vars(hookspecs) if hook.startswith(_PREFIX)}
    for attribute in dir(type(plugin)):
        method = getattr(type(plugin), attribute)
        if not attribute.startswith(_PREFIX) or not callable(method):
            continue
        if attribute in hookspecs.FORMER_HOOKS:
            reason = f"{attribute} is not called any more: {hookspecs.FORMER_HOOKS[attribute]}"
            warnings.warn(f"plugin {name!r}: {reason}", DeprecationWarning, stacklevel=2)
            continue
        if attribute not in known:
            raise PluginError(name, f"{attribute} is no hook; known: {', '.join(sorted(known))}")
        marked = getattr(method, f"{hookspecs.PROJECT}_impl", None)
        if marked is None:
            raise PluginError(name, f"{attribute} is not marked with @reput.hookimpl")
        for option in _refused_options(attribute, marked):
            raise PluginError(name, f"{attribute} is marked with {option}, which reput ignores")
        accepted = set(inspect.signature(getattr(hookspecs, attribute)).parameters)
        unknown = set(list(inspect.signature(method).parameters)[1:]) - accepted
        if unknown:
            raise PluginError(
                name,
                f"{attribute} takes {', '.join(sorted(unknown))}; the hook has "
                f"{', '.join(sorted(accepted)) or 'no arguments'}",
            )

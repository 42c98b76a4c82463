"""Which plugins are installed, and how a plugin that a store names becomes an object.

Plugins are found through the entry-point group ``reput.plugins``. Only plugins that a store names
are imported; a new store that names none uses the plugins of the group ``reput.defaults``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

import attrs

from reput.errors import PluginError, PluginNotFoundError
from reput.installhints import install_command, install_missing
from reput.plugin.base import Plugin

ENTRY_POINT_GROUP = "reput.plugins"
DEFAULTS_GROUP = "reput.defaults"
"""Entry points with the names of a distribution's plugins that new stores use by default."""


_VERSION: Final = re.compile(r"^Version: *(\S+) *$", re.MULTILINE)


@attrs.frozen
class InstalledPlugin:
    """A plugin that an installed distribution offers; not imported."""

    name: str
    value: str
    """Module and class, as in the entry point."""
    entry_point: metadata.EntryPoint = attrs.field(repr=False)
    is_default: bool = False
    """Whether a new store that names no plugins uses this one."""

    @property
    def distribution(self) -> str:
        """Name of the distribution; "?" if it has no description."""
        found = self.entry_point.dist
        return found.name if found is not None else "?"

    @property
    def version(self) -> str:
        """Version of the distribution; "?" if it has no description."""
        found = self.entry_point.dist
        if found is None:
            return "?"
        # `found.version` parses the whole description as a mail, with each use.
        line = _VERSION.search(found.read_text("METADATA") or "")
        return line[1] if line is not None else found.version

    def load(self) -> type[Plugin]:
        """Import the plugin's class.

        Raises:
            PluginError: the class cannot be imported, or is not a plugin.
        """
        try:
            found = self.entry_point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin may raise anything, SystemExit included
            reason = (
                f"{self.value} of {self.distribution} {self.version} cannot be imported: {error}"
            )
            command = install_missing(error.name) if isinstance(error, ImportError) else None
            if command is not None:
                reason += f"; install it: {command}"
            raise PluginError(self.name, reason) from error
        if not (isinstance(found, type) and issubclass(found, Plugin)):
            raise PluginError(self.name, f"{self.value} is not a subclass of reput.Plugin")
        return found


_known: tuple[object, tuple[InstalledPlugin, ...]] = (None, ())
"""The plugins that were found last, after the state of the path at that time."""

_listed: dict[str, tuple[int, object]] = {}
"""By directory: when it changed last, and the distributions in it."""


def installed() -> list[InstalledPlugin]:
    """Return all installed plugins by name; of two with one name, the first on the path.

    The files of all distributions are read again only if a directory of the path has changed, as
    that takes longer than opening a store.
    """
    global _known
    state = _state_of_path()
    if _known[0] != state:
        _known = state, _find_installed()
    return list(_known[1])


def _state_of_path() -> object:
    found = []
    for each in sys.path:
        each = each or os.curdir
        try:
            changed = os.stat(each).st_mtime_ns
        except OSError:  # it does not exist
            changed = -1
        if each not in _listed or _listed[each][0] != changed:
            _listed[each] = changed, _distributions_in(each, changed)
        found.append((each, _listed[each][1]))
    return found, sys.meta_path.copy()


def _distributions_in(path: str, changed: int) -> object:
    """Return what changes with a directory's distributions, and not with its other files."""
    try:
        with os.scandir(path) as entries:
            return {
                each.name: each.stat().st_mtime_ns
                for each in entries
                if each.name.lower().endswith((".dist-info", "egg-info"))
            }
    except OSError:  # a zip file, or a directory that may not be read
        return changed


def _find_installed() -> tuple[InstalledPlugin, ...]:
    offered = metadata.entry_points()
    # A distribution may make only its own plugins defaults.
    defaults = {(default.name, default.dist) for default in offered.select(group=DEFAULTS_GROUP)}
    found: dict[str, InstalledPlugin] = {}
    for each in offered.select(group=ENTRY_POINT_GROUP):
        is_default = (each.name, each.dist) in defaults
        found.setdefault(each.name, InstalledPlugin(each.name, each.value, each, is_default))
    return tuple(found[name] for name in sorted(found))


def is_own(name: str) -> bool:
    """Whether a plugin is one of reput's own: one that the distribution ``reput`` lists."""
    try:
        required = metadata.requires("reput") or ()
    except metadata.PackageNotFoundError:
        required = ()
    own = {match.group() for line in required if (match := re.match(r"[\w.-]+", line))}
    return f"reput-{name}" in own


def how_to_install(name: str) -> str:
    """Return what to do about a plugin that a store names and that is not installed.

    Only reput's own plugins have a command: another user's store may name anything.
    """
    if is_own(name):
        return f"reput has it: {install_command(name)}"
    return (
        "reput does not have it: install the distribution that offers it, such as the folder of "
        "your own plugin, or ask the author of the store for it"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error's text for a mistyped plugin; empty if no known name is near."""
    import difflib  # only for errors

    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def plugins_argument(items: Iterable[str | Plugin]) -> str:
    """Return the argument that opens a store with these plugins, for the text of an error."""
    shown = [repr(each) if isinstance(each, str) else f"{type(each).__name__}(…)" for each in items]
    return f"plugins=[{', '.join(shown)}]"


def plugin_name(plugin: Plugin | type[Plugin]) -> str:
    """Return the name of a plugin given as an object: its ``name``, or its class's, shortened."""
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return getattr(kind, "name", "") or kind.__name__.removesuffix("Plugin").lower()


def plugin_of(
    item: Any,
    config: Mapping[str, Mapping[str, Any]],
    offered: Iterable[InstalledPlugin] | None = None,
) -> tuple[str, Plugin]:
    """Return name and object of a plugin that is given by its name or as an object.

    Raises:
        PluginNotFoundError: no plugin of that name is among them.
        PluginError: ``item`` is not a plugin, or its class cannot be imported or made.
        ConfigError: a wrong option.
    """
    if isinstance(item, Plugin):
        return plugin_name(item), item
    if isinstance(item, type) and issubclass(item, Plugin):
        reason = f"a class was given; give an object of it: {item.__name__}()"
        raise PluginError(plugin_name(item), reason)
    if not isinstance(item, str):
        raise PluginError(str(item), "a plugin's name, or a reput.Plugin object expected")
    known = {found.name: found for found in (installed() if offered is None else offered)}
    if item not in known:
        near = "" if is_own(item) else did_you_mean(item, known)
        step = near or f" ({how_to_install(item)})"
        raise PluginNotFoundError(
            item, f"not installed; installed are: {', '.join(known) or 'none'}{step}"
        )
    return item, known[item].load().from_section(item, config.get(item, {}))

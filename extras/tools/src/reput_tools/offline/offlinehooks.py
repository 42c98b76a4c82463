"""`offline_hooks`: the hooks of one plugin that offline tools call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.plugin import hooks_of
from reput_tools.offline import hookspecs

if TYPE_CHECKING:
    import pluggy

    from reput.plugin import Plugin


def offline_hooks(name: str, plugin: Plugin) -> pluggy.HookRelay:
    """Return a plugin's hooks of `reput_tools.offline.hookspecs`; see `reput.plugin.hooks_of`.

    Args:
        name: the plugin's name, for error texts.
        plugin: the plugin's object.

    Raises:
        PluginError: a hook that is not marked, unknown, or has unknown arguments.
    """
    return hooks_of(name, plugin, hookspecs)

"""A tool with a hook of its own: how many messages of a topic do the plugins of a store know?"""

from __future__ import annotations

from reput.plugin import hooks_of, installed
from reput_tally import hookspecs

__all__ = ["tally"]


def tally(root: str, topic: str) -> dict[str, int]:
    """Return the number of messages of a topic by plugin, of the plugins that count any.

    Args:
        root: the directory of a store that no program has open.
        topic: the topic.

    Raises:
        PluginError: a plugin's hook is not as the specification says.
    """
    counts = {}
    for each in installed():
        plugin = each.load().from_section(each.name, {})
        hooks = hooks_of(each.name, plugin, hookspecs)
        count = hooks.reput_tally_count(root=root, topic=topic)
        if count is not None:
            counts[each.name] = count
    return counts

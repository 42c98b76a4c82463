"""Words that a shell completes: topics, queues and plugins of the store on the command line.

Nothing is opened: names of directories and the store's small files tell them, so that a key press
is answered at once. What cannot be read completes to nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

_QUEUES = "consumequeue"  # a directory for each topic, in it one for each queue
_SHOWN_MAX = 1_000


def stored_topics(path: str) -> list[str]:
    """Return the topics that have queues in the store at ``path``, sorted."""
    return sorted(_directories(os.path.join(path, _QUEUES)))


def used_plugins_of(path: str) -> list[str]:
    """Return the plugins that the manifest of the store at ``path`` names, sorted."""
    from reput.errors import ReputError
    from reput.files import Disk
    from reput.log import StateFile
    from reput.storefiles import Manifest

    with contextlib.suppress(OSError, ReputError):
        manifest = Manifest.of(StateFile.of(path, Disk().at(path)))
        return [] if manifest is None else sorted(manifest.plugins)
    return []


def complete_topic(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete a topic of the store that the command line names."""
    return _beginning(incomplete, stored_topics(_path(context)))


def complete_queue(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete a queue of the topic that the command line names."""
    topic = context.params.get("topic") or context.params.get("topic_named")
    if not isinstance(topic, str) or topic in ("", ".", "..") or "/" in topic:
        return []
    found = _directories(os.path.join(_path(context), _QUEUES, topic))
    return _beginning(incomplete, sorted((name for name in found if name.isdigit()), key=int))


def complete_plugin(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete a plugin that the store on the command line uses."""
    return _beginning(incomplete, used_plugins_of(_path(context)))


def complete_installed_plugin(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete a plugin that is installed."""
    from importlib.metadata import entry_points

    names = {found.name.partition(" ")[0] for found in entry_points(group="reput.plugins")}
    return _beginning(incomplete, sorted(names))


def _path(context: click.Context) -> str:
    path = context.params.get("path")
    return os.path.expanduser(path) if isinstance(path, str) else ""


def _directories(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [entry.name for entry in os.scandir(path) if entry.is_dir()]
    return []


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    # A name that a shell or a terminal would take for more than a name is left out.
    fits = (name for name in names if name.startswith(incomplete) and name.isprintable())
    return [name for _, name in zip(range(_SHOWN_MAX), fits, strict=False)]

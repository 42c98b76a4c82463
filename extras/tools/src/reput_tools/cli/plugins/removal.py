"""Takes a plugin out of a store: from then on the store does not use it, and its files stay."""

from __future__ import annotations

import os
import shlex
from typing import Any, NamedTuple

from reput.errors import PluginError
from reput.plugin import installed
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.storeopening import follows_links, look_at
from reput_tools.cli.kit.storeplugins import check_store, check_used, used_plugins
from reput_tools.offline import lock_store


class Removed(NamedTuple):
    """The parts that leave a store, and the parts that stay."""

    root: str
    plugin: str
    options: dict[str, Any]
    """The plugin's options, which the store forgets."""
    sizes: dict[str, int]
    """Directories of the plugin, as far as their names tell, with their bytes on disk."""

    @property
    def paths(self) -> list[str]:
        """The directories, and the plugin's place in the log."""
        return [os.path.join(self.root, name) for name in sorted(self.sizes)]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "path": self.root,
            "plugin": self.plugin,
            "options": self.options,
            "kept": [
                {"path": os.path.join(self.root, name), "size": size}
                for name, size in sorted(self.sizes.items())
            ],
        }

    @property
    def how_to_delete(self) -> str:
        """The command that deletes the files; empty if none were found."""
        return f"rm -r {shlex.join(self.paths)}" if self.paths else ""


def found_to_remove(path: str, plugin: str) -> Removed:
    """Return what `remove` would take out of the store; changes nothing.

    Raises:
        Failure: the store does not use the plugin, or another one requires it.
    """
    root = check_store(path)
    check_used(root, plugin)
    needed_by = _requiring(used_plugins(root) or (), plugin)
    if needed_by:
        text = f"{root}: {plugin!r} is required by {', '.join(needed_by)}, which would not open"
        step = f"remove that first: reput plugins {shlex.quote(root)} --remove {needed_by[0]}"
        raise Failure(f"{text}; {step}", ExitCode.UNAVAILABLE)
    found = look_at(root)
    manifest = found.manifest
    options = {} if manifest is None else dict(manifest.config.get(plugin, {}))
    sizes = {name: size for name, size in found.sizes().items() if _is_of(name, plugin, root)}
    return Removed(root, plugin, options, sizes)


def remove(found: Removed) -> None:
    """Take the plugin out of the store.

    Raises:
        StoreLockedError: a process has the store open.
    """
    with lock_store(found.root, derived=True, follow_links=follows_links()) as closed:
        closed.forget_plugin(found.plugin)


def _is_of(name: str, plugin: str, root: str) -> bool:
    """Whether a directory of the store is the plugin's: ``index``, ``consumequeue_ext``."""
    is_named_so = name == plugin or name.startswith((f"{plugin}_", f"{plugin}-"))
    return is_named_so and os.path.isdir(os.path.join(root, name))


def _requiring(used: tuple[str, ...], plugin: str) -> list[str]:
    """Return which of the store's plugins require this one, as far as they are installed."""
    found = []
    for each in installed():
        if each.name in used and each.name != plugin:
            try:
                kind = each.load()
            except PluginError:
                continue  # opening the store will name it
            if plugin in kind.requires:
                found.append(each.name)
    return found

"""Commands that plugins add to ``reput`` (hook ``reput_commands``), and other distributions.

A distribution that is no plugin names its commands in the entry-point group ``reput.commands``:
the command's name, and where its ``click.Command`` is. Their modules are imported for the list of
commands, too: they are to import what they need inside of the commands.

Nothing is loaded when one of our own commands runs. For the list of commands those plugins are
loaded whose sources name the hook, the others are left alone: to load a plugin is to load numpy and
more, and ``--help`` has to answer at once. A command that nobody knows makes all of them load. A
plugin that fails costs one line on stderr.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput_cli.failures import warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["PluginCommands"]

_HOOK = "reput_commands"
_SOURCE_LIMIT = 200  # files of one plugin to look into; who has more is loaded


class PluginCommands:
    """The commands of all installed plugins, loaded when asked for."""

    def __init__(self) -> None:
        self._commands: dict[str, click.Command] = {}
        self._loaded: set[str] = set()

    def all(self) -> dict[str, click.Command]:
        """Commands by name, of distributions, and of the plugins whose sources name the hook."""
        self._load_own()
        self._load(everything=False)
        return self._commands

    def find(self, name: str) -> click.Command | None:
        """The command of that name, whoever adds it."""
        self._load_own()
        if name in self._commands:
            return self._commands[name]
        self._load(everything=False)
        if name not in self._commands:
            self._load(everything=True)
        return self._commands.get(name)

    def _load_own(self) -> None:
        for entry_point in _entry_points("reput.commands"):
            if f"{entry_point.name} {entry_point.value}" in self._loaded:
                continue
            self._loaded.add(f"{entry_point.name} {entry_point.value}")
            command = _command_of(entry_point)
            if command is not None:
                self._add(entry_point.name, entry_point.name, command)

    def _load(self, *, everything: bool) -> None:
        for entry_point in _entry_points("reput.plugins"):
            if entry_point.name in self._loaded:
                continue
            if everything or _names_the_hook(entry_point.value):
                self._loaded.add(entry_point.name)
                for name, command in _commands_of(entry_point).items():
                    self._add(entry_point.name, name, command)

    def _add(self, plugin: str, name: str, command: click.Command) -> None:
        if name in self._commands:
            warn(f"plugin {plugin!r} adds the command {name!r}, which is taken; it is left out")
        else:
            self._commands[name] = command


def _entry_points(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda found: found.name)


def _command_of(entry_point: EntryPoint) -> click.Command | None:
    try:
        command = entry_point.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry_point.value} is no click.Command")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"command {entry_point.name!r} ({_origin(entry_point)}) could not be loaded"
        warn(f"{text}: {type(error).__name__}: {error}")
        return None
    return command


def _commands_of(entry_point: EntryPoint) -> dict[str, click.Command]:
    # A group of its own for each: one that fails half-way leaves nothing behind.
    group = click.Group("reput")
    # An import runs a stranger's code, and that may end in anything, SystemExit included.
    try:
        plugin_class = entry_point.load()
        if hasattr(plugin_class, _HOOK):
            plugin = plugin_class.from_section(entry_point.name, {})
            plugin.reput_commands(group=group)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"plugin {entry_point.name!r} ({_origin(entry_point)}) could not add its commands"
        warn(f"{text}: {type(error).__name__}: {error}")
        return {}
    return dict(group.commands)


def _origin(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    return distribution.name if distribution is not None else entry_point.value


def _names_the_hook(value: str) -> bool:
    """Whether a source file beside the entry point names the hook; True where that is not known."""
    try:
        spec = importlib.util.find_spec(value.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return True  # loading will tell what is wrong
    if spec is None:
        return True
    if spec.submodule_search_locations is None:
        paths = [spec.origin] if spec.origin else []
    else:
        paths = [
            path for folder in spec.submodule_search_locations for path in _source_files(folder)
        ]
    if not paths or len(paths) > _SOURCE_LIMIT:
        return True
    return any(_HOOK.encode() in _content(path) for path in paths)


def _source_files(folder: str) -> Iterator[str]:
    for directory, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(directory, name)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""

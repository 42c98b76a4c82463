"""Commands that other distributions add: entry points of the group ``reput.commands``.

The entry point's name is the command's name and, after a space, the line that ``reput --help``
shows; without this line the summary of the distribution is shown. The line may begin with the
section in which the command is listed, in brackets: ``compact [write] Compact topics now.`` So
reput imports nothing of other distributions when it lists the commands. The list appears at once
with any number of distributions, and also has the commands of a broken one. reput imports only the
command that is called.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.lazycommand import SECTIONS, LazyCommand

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUP = "reput.commands"


def plugin_commands(taken: Container[str]) -> dict[str, LazyCommand]:
    """Return the commands of other distributions; none is imported.

    Args:
        taken: names that no distribution may use. Using one, or a name a second time, costs a
            warning on stderr.

    Returns:
        Commands by name, in the order of their names.
    """
    commands: dict[str, LazyCommand] = {}
    for entry_point in _entry_points():
        name, _, text = entry_point.name.partition(" ")
        if name in taken or name in commands:
            warn(f"{_origin(entry_point)} adds the command {name!r}, a name that is taken")
            continue
        section, text = _section_and_line(text.strip())
        short_help = text or _summary(entry_point)
        commands[name] = LazyCommand(name, short_help, partial(_load, name, entry_point), section)
    return commands


def _section_and_line(text: str) -> tuple[str, str]:
    section, bracket, line = text.removeprefix("[").partition("]")
    if text.startswith("[") and bracket and section in SECTIONS:
        return section, line.strip()
    return "", text


def _entry_points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and most commands need it not

    return sorted(entry_points(group=_GROUP), key=lambda found: found.name)


def _load(name: str, entry_point: EntryPoint) -> click.Command:
    """Import the command.

    Raises:
        Failure: the import failed, or the object is not a command.
    """
    # An import runs other authors' code, which may raise anything, SystemExit included.
    try:
        command = entry_point.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry_point.value} is not a click.Command")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        distribution = entry_point.dist
        step = "repair or uninstall that distribution"
        if distribution is not None:
            step = f"update {distribution.name}, or uninstall it"
        text = f"the command {name!r} of {_origin(entry_point)} cannot be loaded"
        raise Failure(
            f"{text}: {type(error).__name__}: {error}; {step} (--debug shows more)",
            ExitCode.UNAVAILABLE,
        ) from error
    return command


def _origin(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    if distribution is None:
        return entry_point.value
    return f"{distribution.name} {distribution.version}"


def _summary(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    return (distribution.metadata["Summary"] or "") if distribution is not None else ""

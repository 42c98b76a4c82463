"""A command that is imported only when it is called; until then its name and one line are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

SECTIONS = {
    "read": "Read",
    "write": "Write",
    "plugins": "Plugins",
    "doctor": "Doctor",
    "groups": "Topics and consumer groups",
    "servers": "Servers",
}
"""Headings of the list of commands, in order, by the word for each in an entry point."""


class LazyCommand(click.Command):
    """Stands for a command in lists and in completion; a call of it calls the command."""

    def __init__(
        self, name: str, short_help: str, load: Callable[[], click.Command], section: str = ""
    ) -> None:
        super().__init__(name, short_help=short_help)
        self.load = load
        """Imports the command itself."""
        self.section = section
        """Under which of `SECTIONS` the command is listed; otherwise under "Other commands"."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the command's own arguments; from here on click works with the command itself.

        Returns:
            The context of the loaded command, whose `command` click invokes and completes.
        """
        command = self.load()
        if extra.get("resilient_parsing"):  # a shell completes the command line
            args = _without_open_option(command, args)
        return command.make_context(info_name, args, parent, **extra)


def _without_open_option(command: click.Command, args: list[str]) -> list[str]:
    """Drop an option at the end whose value is about to be completed.

    It would be an error, after which click knows no argument, such as the store whose topics are
    looked for.
    """
    options = [each for each in command.params if isinstance(each, click.Option)]
    if args and any(args[-1] in each.opts and not each.is_flag for each in options):
        return args[:-1]
    return args

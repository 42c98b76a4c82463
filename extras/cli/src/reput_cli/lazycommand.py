"""A command that is imported only when it is called; until then its name and one line are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["LazyCommand"]


class LazyCommand(click.Command):
    """Stands for a command in lists and in completion; a call of it calls the command."""

    def __init__(self, name: str, short_help: str, load: Callable[[], click.Command]) -> None:
        super().__init__(name, short_help=short_help)
        self.load = load
        """Imports the command itself."""

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
        return self.load().make_context(info_name, args, parent, **extra)

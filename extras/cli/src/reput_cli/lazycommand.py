"""A command that is known by its name and one line, and imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["LazyCommand"]


class LazyCommand(click.Command):
    """Stands for a command in lists, completion included; a call of it is one of the command."""

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
        """Read the command's own arguments; from here on click has to do with the command itself.

        Returns:
            The context of the loaded command: what click invokes, and completes, is its `command`.
        """
        return self.load().make_context(info_name, args, parent, **extra)

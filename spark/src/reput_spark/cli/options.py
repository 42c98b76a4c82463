"""What the commands take in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["corrupt_option", "engine_options", "paths_argument"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
corrupt_option = click.option(
    "--corrupt",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do at damage.",
)


def engine_options(command: _Command) -> _Command:
    """``--master``, ``--jobs`` and ``--split-size``."""
    for option in (
        click.option(
            "--split-size",
            metavar="BYTES",
            type=click.IntRange(min=1 << 16),
            help="Bytes of the log that a task reads, about.",
        ),
        click.option(
            "--jobs",
            metavar="COUNT",
            type=click.IntRange(min=1),
            help="No Spark: so many processes of this machine.",
        ),
        click.option(
            "--master",
            metavar="URL",
            default="local[*]",
            show_default=True,
            help="Where Spark runs: local[2], spark://host:7077, sc://host for Connect, …",
        ),
    ):
        command = option(command)
    return command

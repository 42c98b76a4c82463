"""Options and arguments that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reput_arrow.export.command.options import corrupt_option
from reput_tools.cli.kit import CheckedPath, ExitCode, format_count, warn

__all__ = [
    "corrupt_option",
    "end_with_damage",
    "engine_options",
    "master_option",
    "paths_argument",
    "split_size_option",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])
paths_argument = click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=CheckedPath(readable=False)
)


def end_with_damage(damage_count: int) -> None:
    """Say what was left out as it is damaged, and end with the code for that.

    Raises:
        click.exceptions.Exit: there was some.
    """
    if damage_count:
        warn(
            f"{format_count(damage_count, 'damaged place')} left out; "
            "`reput spark verify` lists what is damaged"
        )
        raise click.exceptions.Exit(ExitCode.DAMAGED)


master_option = click.option(
    "--master",
    metavar="URL",
    default="local[*]",
    show_default=True,
    help="Where Spark runs: local[2], spark://host:7077, sc://host for Connect, …",
)
split_size_option = click.option(
    "--split-size",
    metavar="BYTES",
    type=click.IntRange(min=1 << 16),
    help="The approximate number of bytes of the log that a task reads.",
)


def engine_options(command: _Command) -> _Command:
    """``--master``, ``--jobs`` and ``--split-size``."""
    jobs_option = click.option(
        "--jobs",
        metavar="COUNT",
        type=click.IntRange(min=1),
        help="Use this number of processes on this machine instead of Spark.",
    )
    return master_option(jobs_option(split_size_option(command)))

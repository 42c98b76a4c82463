"""Options that `reput export` and `reput sql` share: which messages, and what damage does."""

from __future__ import annotations

from typing import Final

import click

from reput_tools.cli.kit import read_time

topics_option: Final = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Only this topic; may be repeated.",
)
since_option: Final = click.option(
    "--since",
    metavar="TIME",
    callback=read_time,
    help="Only messages stored at this time or later.",
)
until_option: Final = click.option(
    "--until", metavar="TIME", callback=read_time, help="Only messages stored before this time."
)
corrupt_option: Final = click.option(
    "--corrupt",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="Whether damage ends the command, or is skipped. With skip the exit code is 1 if "
    "messages are missing.",
)

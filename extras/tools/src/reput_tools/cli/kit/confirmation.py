"""Ask before something is removed or ended."""

from __future__ import annotations

import sys

import click

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure


def confirm(question: str) -> None:
    """Ask on stderr, and return if the answer is yes; ``--yes`` of a command goes without it.

    Raises:
        Failure: the answer is no.
        click.UsageError: standard input ends without an answer, as it does in a script.
    """
    try:
        agrees = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        text = "nothing was changed, as nobody answered; give --yes to continue without a question"
        raise click.UsageError(text) from None
    if not agrees:
        raise Failure("nothing was changed", ExitCode.REFUSED)

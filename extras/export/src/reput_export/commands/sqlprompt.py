"""The prompt of ``reput sql``: queries as a user types them, until Ctrl-D."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import click

from reput_cli.kit import Failure

__all__ = ["prompt"]

_ENDS = frozenset({"exit", "quit", "\\q", ".quit", ".exit"})


def prompt(answer: Callable[[str], object], read: Callable[[str], str] = input) -> None:
    """Ask for queries, each of which ends with a semicolon, and answer them; an error ends none.

    Args:
        answer: prints the answer to a query.
        read: returns the next line, without its end.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives input() its keys and its history

    click.echo(
        "Queries end with a semicolon; DESCRIBE messages; lists the columns. Ctrl-D ends.", err=True
    )
    lines: list[str] = []
    while True:
        try:
            line = read("... " if lines else "sql> ")
        except KeyboardInterrupt:
            lines.clear()  # as a shell does
            click.echo(err=True)
            continue
        except EOFError:
            click.echo(err=True)
            return
        if not lines and line.strip().rstrip(";").lower() in _ENDS:
            return
        lines.append(line)
        text = "\n".join(lines)
        if not text.strip():
            lines.clear()
        elif line.rstrip().endswith(";"):
            lines.clear()
            _answer(answer, text)


def _answer(answer: Callable[[str], object], text: str) -> None:
    try:
        answer(text)
    except Failure as failure:
        failure.show()
    except KeyboardInterrupt:
        click.echo("reput: interrupted", err=True)

"""The prompt of ``reput sql``: queries as a user types them, until Ctrl-D."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import click

from reput_tools.cli.kit import Failure

__all__ = ["prompt"]

_ENDS = frozenset({"exit", "quit", "\\q", ".quit", ".exit"})
_ASKS_FOR_HELP = frozenset({"help", "?", "\\?", "\\h", ".help"})
_HELP = """\
A query ends with a semicolon, and may have several lines. For example:
  SELECT topic, count(*) FROM messages GROUP BY topic;
  SELECT queue_offset, body FROM messages ORDER BY store_timestamp DESC LIMIT 5;
  DESCRIBE messages;   lists the columns
Ctrl-C cancels a query. exit or Ctrl-D ends the command."""


def prompt(answer: Callable[[str], object], read: Callable[[str], str] = input) -> None:
    """Ask for queries, each of which ends with a semicolon, and answer them; an error ends none.

    Args:
        answer: prints the answer to a query.
        read: returns the next line, without its end.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives input() its keys and its history

    click.echo(
        "End each query with a semicolon. Type help for examples, and exit or Ctrl-D to end.",
        err=True,
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
        word = line.strip().rstrip(";").strip().lower()
        if word in _ENDS:  # also after a query without a semicolon: no line of SQL is such a word
            return
        if not lines and word in _ASKS_FOR_HELP:
            click.echo(_HELP, err=True)
            continue
        if not lines and word.startswith((".", "\\")):  # as in other shells of databases
            click.echo(f"reput: {word.split()[0]} is not a command here; type help", err=True)
            continue
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

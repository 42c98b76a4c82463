"""The prompt of ``reput sql``: queries as a user types them, until Ctrl-D."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import click

from reput_tools.cli.kit import FORMS, Failure

__all__ = ["prompt"]

_ENDS = frozenset({"exit", "quit", "\\q", ".quit", ".exit"})
_ASKS_FOR_HELP = frozenset({"help", "?", "\\?", "\\h", ".help"})
_QUERIES = {".tables": "SHOW TABLES", ".schema": "DESCRIBE messages"}
_HELP = """\
A query ends with a semicolon, and may have several lines. For example:
  SELECT topic, count(*) FROM messages GROUP BY topic;
  SELECT queue_offset, body FROM messages ORDER BY store_timestamp DESC LIMIT 5;
  DESCRIBE messages;   lists the columns, as .schema does; .tables lists the tables
.mode table, line, csv or jsonl sets the form of answers. A query that ends with \\G instead of a
semicolon is answered in lines.
Ctrl-C cancels a query. exit or Ctrl-D ends the command."""


def prompt(
    answer: Callable[[str, str | None], object],
    form: str | None = None,
    read: Callable[[str], str] = input,
) -> None:
    """Ask for queries, each of which ends with a semicolon, and answer them; an error ends none.

    Args:
        answer: prints the answer to a query, in one of `FORMS`.
        form: of the answers, until the user sets another.
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
            form = _command(answer, word.split(), form)
            continue
        lines.append(line)
        text = "\n".join(lines).rstrip()
        if not text:
            lines.clear()
        elif text.endswith((";", "\\G")):
            lines.clear()
            is_in_lines = text.endswith("\\G")
            _answer(answer, text.removesuffix("\\G"), "line" if is_in_lines else form)


def _command(
    answer: Callable[[str, str | None], object], words: list[str], form: str | None
) -> str | None:
    """Carry out a command that is not SQL; return the form of later answers."""
    if words[0] == ".mode":
        if len(words) == 2 and words[1] in FORMS:  # the command and the form
            return words[1]
        click.echo(f"reput: .mode expects one of {', '.join(FORMS)}", err=True)
    elif (query := _QUERIES.get(words[0])) is not None:
        _answer(answer, query, form)
    else:
        click.echo(f"reput: {words[0]} is not a command here; type help", err=True)
    return form


def _answer(answer: Callable[[str, str | None], object], text: str, form: str | None) -> None:
    try:
        answer(text, form)
    except Failure as failure:
        failure.show()
    except KeyboardInterrupt:
        click.echo("reput: interrupted", err=True)

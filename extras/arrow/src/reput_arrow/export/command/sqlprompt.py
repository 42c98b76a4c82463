"""The queries of ``reput sql``: as a user types them, or as one text with commands between them.

Lines that begin with a dot are commands, as in DuckDB's own shell.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator

import click

from reput_arrow.export.command.sqllines import Lines
from reput_tools.cli.kit import FORMS, Failure

_ENDS = frozenset({"exit", "quit", "\\q", ".quit", ".exit"})
_ASKS_FOR_HELP = frozenset({"help", "?", "\\?", "\\h", ".help"})
_QUERIES = {".tables": "SHOW TABLES", ".schema": "DESCRIBE messages"}
_NO_QUERY = "no query: give QUERY, or queries on standard input"
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
    lines = Lines()
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
        word = _word(line)
        if word in _ENDS:  # also after a query without a semicolon: no line of SQL is such a word
            return
        if not lines and word in _ASKS_FOR_HELP:
            click.echo(_HELP, err=True)
            continue
        if not lines and word.startswith((".", "\\")):  # as in other shells of databases
            try:
                query, form = _command(word.split(), form)
            except click.UsageError as error:
                click.echo(f"reput: {error.message}", err=True)
                continue
            if query is not None:
                _answer(answer, query, form)
            continue
        for text, is_in_lines in lines.add(f"{line}\n"):
            _answer(answer, text, "line" if is_in_lines else form)
        if not lines:
            for text in lines.take():
                _answer(answer, text.removesuffix("\n"), form)


def parts_of(text: str, form: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield the queries of a text, with the form of their answers; carry out commands between them.

    A command is a line of its own, before all queries or after a semicolon. Only comments may
    stand between. The queries between two commands are one part, as the text has them.

    Args:
        text: what a pipe or the command line holds. The last query needs no semicolon.
        form: of the answers, until a command sets another.

    Raises:
        click.UsageError: an unknown command, or neither a query nor a command.
    """
    lines = Lines()
    is_empty = True
    for line in io.StringIO(text):  # ended by \n alone: a literal may have other ends of lines
        word = "" if lines else _word(line)
        if word in _ENDS or word in _ASKS_FOR_HELP or word.startswith((".", "\\")):
            is_empty = False
            for each in lines.take():
                yield each, form
            if word in _ENDS:
                return
            if word in _ASKS_FOR_HELP:
                click.echo(_HELP, err=True)
                continue
            query, form = _command(word.split(), form)
            if query is not None:
                yield query, form
            continue
        for each, is_in_lines in lines.add(line):
            is_empty = False
            yield each, "line" if is_in_lines else form
    for each in lines.take():
        is_empty = False
        yield each, form
    if is_empty:
        raise click.UsageError(_NO_QUERY)


def _word(line: str) -> str:
    return line.strip().rstrip(";").strip().lower()


def _command(words: list[str], form: str | None) -> tuple[str | None, str | None]:
    """Return the query that a command stands for, if any, and the form of later answers.

    Raises:
        click.UsageError: an unknown command, or an unknown form.
    """
    if words[0] == ".mode":
        if len(words) == 2 and words[1] in FORMS:  # the command and the form
            return None, words[1]
        raise click.UsageError(f".mode expects one of {', '.join(FORMS)}")
    query = _QUERIES.get(words[0])
    if query is None:
        known = ", ".join([*_QUERIES, ".mode", ".help", ".exit"])
        raise click.UsageError(f"{words[0]} is not a command here; commands are {known}")
    return query, form


def _answer(answer: Callable[[str, str | None], object], text: str, form: str | None) -> None:
    try:
        answer(text, form)
    except Failure as failure:
        failure.show()
    except KeyboardInterrupt:
        click.echo("reput: interrupted", err=True)

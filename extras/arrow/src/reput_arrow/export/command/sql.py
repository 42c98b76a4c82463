"""``reput sql``: the messages of stores as a table, for queries in SQL."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput_arrow.export.command.jobfailures import (
    end_with_damage,
    failures,
    warn_of_damage,
)
from reput_arrow.export.command.options import (
    corrupt_option,
    since_option,
    topics_option,
    until_option,
)
from reput_tools.cli.kit import (
    CheckedPath,
    ExitCode,
    Failure,
    print_rows,
    read_size,
    rows_options,
    with_debug,
)

if TYPE_CHECKING:
    from reput_arrow.export.sqlquery.database import Database
    from reput_arrow.export.sqlquery.logtable import Selected

_MEMORY_MIN = 64 << 20
_INPUT_MAX = 1 << 20  # characters
_EXAMPLES = """\b
Examples:
  reput sql STORE "SELECT topic, count(*) FROM messages GROUP BY topic"
  reput sql STORE -t orders "SELECT body->>'$.id' FROM messages WHERE tags = 'paid'"
  reput sql STORE "SELECT properties['region'], count(*) FROM messages GROUP BY ALL" --format csv
  reput sql STORE "DESCRIBE messages"
  reput sql STORE
"""


@click.command(short_help="Query the messages of a store in SQL.", epilog=_EXAMPLES)
@click.argument("path", metavar="PATH", type=CheckedPath(file_okay=False, readable=False))
@click.argument("query", required=False)
@topics_option
@since_option
@until_option
@corrupt_option
@click.option(
    "--memory",
    "memory_size",
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    callback=read_size,
    help="Memory for sorting and grouping. A query that needs more uses a temporary directory.",
)
@rows_options
@with_debug
def sql(
    path: str,
    query: str | None,
    topics: tuple[str, ...],
    since: int | None,
    until: int | None,
    corrupt: str,
    memory_size: int,
    form: str | None,
) -> None:
    r"""Run QUERY on the table messages, which has a row for each message of the store at PATH.

    PATH may also be a directory of stores; the columns `store` and `broker` name them. The SQL is
    that of DuckDB. `DESCRIBE messages` lists the columns. A body is text, with U+FFFD for bytes
    that are not UTF-8; properties are a map, and times are UTC. Each query reads the log once, up
    to its current end, and decodes only the columns that it uses. -t, --since and --until limit
    what it reads. A query only reads: it changes no settings and reaches no file. It does not
    compare bodies with their checksums; `reput verify` does.

    Without QUERY, queries come from standard input, separated by semicolons; on a terminal the
    command asks for them. Lines of their own may be commands, as in DuckDB's shell: `.tables`,
    `.schema`, `.mode FORMAT`. Another process may write the store meanwhile.

    The exit code is 2 if DuckDB refuses a query, 5 if it fails on a value or for lack of memory, 3
    if the log has no message of the topics, and 1 at damage.
    """
    from reput_arrow.export.command.sqlprompt import parts_of, prompt
    from reput_arrow.export.sqlquery.logtable import Selected

    if memory_size < _MEMORY_MIN:
        raise click.BadParameter("64MiB or more expected", param_hint="--memory")
    _check_place(path)
    selected = Selected(
        path=path,
        topics=topics or None,
        since=since,
        until=until,
        skips_damage=corrupt == "skip",
    )
    with failures([path], topics), _database(selected, memory_size) as database:
        _check_topics(path, topics)
        if query is None and sys.stdin.isatty():
            prompt(lambda text, form: warn_of_damage(_print_answers(database, text, form)), form)
            return
        text = _read_input() if query is None else query
        parts = parts_of(text, form)
        damage_count = sum(_print_answers(database, each, its_form) for each, its_form in parts)
    end_with_damage(damage_count)


def _read_input() -> str:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(newline="")  # a literal keeps its ends of lines
    text = sys.stdin.read(_INPUT_MAX + 1)
    if len(text) > _INPUT_MAX:
        raise click.UsageError(f"queries of more than {_INPUT_MAX} characters on standard input")
    return text


def _check_place(path: str) -> None:
    """Check that a log is there, before DuckDB is imported.

    Raises:
        StoreNotFoundError: no log is there.
        OSError: it is not known, for lack of permission or because the disk fails.
    """
    from reput.errors import StoreNotFoundError
    from reput_arrow.logs.discovery import find_logs

    try:
        find_logs([path])
    except StoreNotFoundError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(
            cause, FileNotFoundError | NotADirectoryError
        ):
            raise cause from None
        raise


def _check_topics(path: str, topics: tuple[str, ...]) -> None:
    """Check that one of the topics exists: a mistyped name would be a table without rows.

    Raises:
        Failure: none of the topics has a queue or a message.
    """
    from reput_tools.cli.kit import no_topic, stored_topics

    known = stored_topics(path)
    if not topics or not {*topics}.isdisjoint(known):
        return
    # Deleted topics, and stores without queues: only the log knows their topics.
    from reput_arrow import scan

    columns = ("physical_offset",)
    if any(each.num_rows for each in scan(path, topic=topics, columns=columns, corrupt="skip")):
        return
    if known:
        raise no_topic(path, topics[0], known)
    names = ", ".join(map(repr, topics))
    raise Failure(f"{path}: no message of topic {names} in the log", ExitCode.NOT_FOUND)


@contextlib.contextmanager
def _database(selected: Selected, memory_size: int) -> Iterator[Database]:
    from reput_arrow.export.sqlquery.database import Database

    with tempfile.TemporaryDirectory(prefix="reput-sql-") as directory:
        try:
            database = Database(selected, memory_size, directory)
        except ModuleNotFoundError as error:
            from reput.installhints import extra_needed

            text = extra_needed("reput sql", error.name, "arrow", "sql")
            raise Failure(text, ExitCode.UNAVAILABLE) from error
        with contextlib.closing(database):
            yield database


def _print_answers(database: Database, text: str, form: str | None) -> int:
    """Print the answers to all queries in ``text``; return how much damage they left out.

    Raises:
        Failure: a query is refused, or cannot be answered.
    """
    from reput_arrow.export.sqlquery.errors import QueryError

    damage_count = 0
    try:
        for query in database.statements(text):
            answer = database.ask(query)
            print_rows(answer.names, answer.rows, form)
            damage_count += answer.source.damage_count
    except QueryError as error:
        code = ExitCode.USAGE if error.is_refused else ExitCode.UNAVAILABLE
        raise Failure(f"SQL: {error}", code) from error
    return damage_count

"""``reput plugins query``: asks a plugin that keeps a SQL table."""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from reput_tools.cli.kit.completion import complete_plugin
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.kit.options import not_empty, path_argument, with_debug
from reput_tools.cli.kit.output import format_size
from reput_tools.cli.kit.queryrows import print_rows, rows_options
from reput_tools.cli.kit.queryvalues import json_of
from reput_tools.cli.kit.storeopening import open_to_read
from reput_tools.cli.kit.storeplugins import check_store, check_used
from reput_tools.cli.kit.units import Seconds
from reput_tools.cli.plugins.pluginstateoutput import states_of

if TYPE_CHECKING:
    from reput import Store

_EXAMPLES = """\b
Examples:
  reput plugins query STORE counter "SELECT topic, sum(messages) FROM counter GROUP BY topic"
  reput plugins query STORE counter "SELECT * FROM counter" --format csv > counts.csv
"""
_LAG = "_lag_size"
_IN_MEMORY = 4 << 20  # bytes of rows; more go to a temporary file


@click.command(short_help="Ask a plugin that keeps a table.", epilog=_EXAMPLES)
@path_argument
@click.argument("plugin", shell_complete=complete_plugin)
@click.argument("sql", callback=not_empty)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(min=0),
    default=30.0,
    show_default=True,
    help="How long the query may take.",
)
@rows_options
@with_debug
def query(path: str, plugin: str, sql: str, timeout: float, form: str | None) -> None:
    r"""Run SQL, a SELECT, on the table that PLUGIN keeps in the store at PATH.

    The SQL is that of SQLite, and the table has the plugin's name. Another process may write the
    store meanwhile; the query then sees what that process has flushed. If the table lacks messages
    that the log has, a line on stderr says so, and each row of --json has the member _lag_size.
    """
    root = check_store(path)
    check_used(root, plugin)
    with open_to_read(path) as store, _rows_file() as file:
        names, lag_size = _answer(_table(store, plugin), sql, timeout, file)
        # The plugin's next flush waits for the query, and not for the printing.
        rows = _rows(file)
        if lag_size and form == "jsonl":
            names, rows = (*names, _LAG), ([*row, lag_size] for row in rows)
        print_rows(names, rows, form)
        if lag_size:
            warn(_incomplete(store, plugin, lag_size))


def _table(store: Store, plugin: str) -> Any:
    """Return the plugin, which has a table.

    Raises:
        Failure: it has none, or could not be opened.
    """
    found = store.plugin(plugin)
    if not hasattr(found, "select"):
        text = f"the plugin {plugin!r} keeps no table; those built on reput-table do"
        raise Failure(text, ExitCode.NOT_FOUND)
    return found


def _answer(table: Any, sql: str, timeout: float, file: IO[str]) -> tuple[tuple[str, ...], int]:
    """Write the rows into a file.

    Returns:
        The names of their columns, and the bytes of the log that the table is behind.
    """
    try:
        with table.select(sql, timeout=timeout) as found:
            names: tuple[str, ...] = found.columns
            for row in found:
                file.write(json.dumps(list(map(json_of, row))) + "\n")
            return names, found.lag_size
    except ValueError as error:  # reput_table's QueryError is one
        raise Failure(str(error), ExitCode.USAGE) from error


def _incomplete(store: Store, plugin: str, lag_size: int) -> str:
    """Return the line about a table that lacks messages, with the next step."""
    from reput.storefiles import READING, Phase

    place = shlex.quote(store.root)
    (state,) = [each.state for each in states_of(store) if each.name == plugin]
    behind = f"its table lacks the last {format_size(lag_size)} of the log"
    if state in (Phase.SUSPENDED, Phase.HALTED):
        step = f"; go on with: reput resume {place} {plugin}"
        return f"plugin {plugin!r} is {state}, and {behind}{step}"
    if state == READING:  # no process has the store open for writing
        return f"plugin {plugin!r}: {behind}; `reput backfill {place} {plugin}` dispatches it"
    return f"plugin {plugin!r}: {behind}, which is not dispatched or not flushed yet"


@contextlib.contextmanager
def _rows_file() -> Iterator[IO[str]]:
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8") as file:
        yield file


def _rows(file: IO[str]) -> Iterator[Sequence[Any]]:
    file.seek(0)
    return map(json.loads, file)

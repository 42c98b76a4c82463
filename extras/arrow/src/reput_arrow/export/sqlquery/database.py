"""`Database`: DuckDB with one table, ``messages``, which it reads from the log for each query.

DuckDB does not tell a stream which columns it needs, and decoding all of them is slow. So the query
is first planned with an empty table of all columns; the plan lists the columns that it reads.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_arrow.export.sqlquery.errors import QueryError, is_refusal, reason_of
from reput_arrow.export.sqlquery.logtable import Selected, Source
from reput_arrow.export.sqlquery.pythonvalues import values_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TABLE: Final = "messages"
_ROWS: Final = 1_000  # of a batch of the answer
_QUERY: Final = "SELECT"  # DuckDB's kind of statement; also of FROM, DESCRIBE and SUMMARIZE
_SCAN: Final = "SEQ_SCAN"
# Else the plan lacks columns that are read only for a condition, or that it can answer by itself.
_PLAIN_PLAN: Final = "filter_pushdown,statistics_propagation"


@attrs.frozen
class Answer:
    """The rows of a query; they are read once, while `Database` is open."""

    names: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    source: Source
    """What was read for it; complete when `rows` has ended."""


@attrs.define(eq=False)
class Database:
    """Queries over messages, each of which reads the logs again; nothing is kept in between.

    Args:
        selected: which messages are in the table.
        memory_size: bytes that DuckDB may use; what needs more goes to ``directory``, or fails.
        directory: an empty one, for what does not fit into memory.
    """

    selected: Selected
    memory_size: int
    directory: str
    _planner: duckdb.DuckDBPyConnection = attrs.field(init=False)
    _runner: duckdb.DuckDBPyConnection = attrs.field(init=False)
    _thread: ThreadPoolExecutor = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        import duckdb

        self._planner = duckdb.connect(":memory:")
        self._runner = duckdb.connect(":memory:")
        self._thread = ThreadPoolExecutor(1, "reput-sql")
        self._planner.execute("SET disabled_optimizers = ?", [_PLAIN_PLAN])
        empty = Source.schema().empty_table()
        self._planner.register("columns_of_messages", empty)
        self._planner.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM columns_of_messages")
        self._planner.unregister("columns_of_messages")
        for connection in (self._planner, self._runner):
            connection.execute("SET temp_directory = ?", [self.directory])
            connection.execute("SET memory_limit = ?", [f"{self.memory_size}B"])
            connection.execute("SET TimeZone = 'UTC'")
            # A query sees the messages, and no file, variable or address.
            connection.execute("SET python_enable_replacements = false")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")

    def close(self) -> None:
        """Forget everything; a query that is not read to its end is ended."""
        self._runner.interrupt()
        self._thread.shutdown()
        self._planner.close()
        self._runner.close()

    def interrupt(self) -> None:
        """End the query under way, which raises `QueryError`; another thread may call this."""
        self._runner.interrupt()

    def statements(self, text: str) -> list[str]:
        """Return the queries in ``text``, which semicolons separate.

        Raises:
            QueryError: it is not SQL, or a statement is not a query.
        """
        import duckdb

        try:
            found = self._planner.extract_statements(text)
        except duckdb.Error as error:
            raise QueryError(reason_of(error)) from error
        for each in found:
            if each.type.name != _QUERY:
                raise QueryError(
                    f"{each.type.name} is not a query; a query only reads: SELECT, FROM, WITH, "
                    "DESCRIBE or SUMMARIZE"
                )
        return [each.query.strip() for each in found]

    def ask(self, query: str) -> Answer:
        """Run one of the `statements`; its rows are read as they are taken.

        Raises:
            QueryError: DuckDB refuses the query, or cannot answer it; `Answer.rows` raises it, too.
            StoreNotFoundError: no log at a path; so does `Answer.rows`.
            CorruptFileError: the log is damaged; so does `Answer.rows`.
        """
        import duckdb

        columns = self._columns_of(query)
        try:
            return self._asked(query, columns)
        except duckdb.BinderException:
            # Such as `SELECT * EXCLUDE (body)`: it names a column that it does not read.
            pass
        try:
            return self._asked(query, _all_columns())
        except duckdb.BinderException as error:
            raise QueryError(reason_of(error)) from error

    def _columns_of(self, query: str) -> tuple[str, ...]:
        """Return the columns of the table that a query reads, in the table's order."""
        import duckdb

        try:
            plans = self._planner.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
        except duckdb.Error as error:
            raise QueryError(reason_of(error)) from error
        scans = [node for plan in plans for node in _scans(json.loads(plan[1]))]
        if not scans:
            return _all_columns()  # nothing is read, and DESCRIBE lists them
        read = {name for node in scans for name in _projected(node)}
        # Counting reads none; a stream needs one, and this one costs least.
        return tuple(name for name in _all_columns() if name in read) or ("physical_offset",)

    def _asked(self, query: str, columns: tuple[str, ...]) -> Answer:
        """Run a query over some columns.

        Raises:
            duckdb.BinderException: the query names another column.
        """
        import duckdb

        source = Source(self.selected, columns)
        try:
            self._runner.register(TABLE, source)  # `interrupt` ends this call, too
            reader = self._wait(lambda: self._runner.sql(query).to_arrow_reader(_ROWS))
        except duckdb.BinderException:
            raise
        except duckdb.Error as error:
            raise _meant(error, source) from error
        return Answer(tuple(reader.schema.names), self._rows(reader, source), source)

    def _rows(self, reader: pa.RecordBatchReader, source: Source) -> Iterator[tuple[Any, ...]]:
        import duckdb

        try:
            while (batch := self._wait(lambda: next(reader, None))) is not None:
                yield from zip(*map(values_of, batch.columns), strict=True)
        except (duckdb.Error, OSError, ValueError) as error:  # Arrow's errors are among these
            raise _meant(error, source) from error

    def _wait(self, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns, which a thread does: Ctrl-C cannot end DuckDB's calls."""
        done = self._thread.submit(work)
        try:
            return done.result()
        except BaseException:
            if not done.done():
                self._runner.interrupt()
                wait([done])
            raise


def _meant(error: Exception, source: Source) -> Exception:
    """Return the error to raise: that of reading the log, if it is the cause."""
    return source.error or QueryError(reason_of(error), is_refused=is_refusal(error))


def _scans(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan that read the table."""
    for node in nodes:
        if node["name"].strip() == _SCAN:
            yield node
        yield from _scans(node["children"])


def _projected(scan: dict[str, Any]) -> Sequence[str]:
    found = scan["extra_info"].get("Projections") or ()
    return (found,) if isinstance(found, str) else found


@functools.cache
def _all_columns() -> tuple[str, ...]:
    return tuple(Source.schema().names)

"""Queries in SQL over the messages of a store, by the engine of ``reput sql``, within limits."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_web.errors import BadRequestError, NotThereError

if TYPE_CHECKING:
    from reput_web.readmodel.workbudget import WorkBudget

_ROWS_MAX: Final = 100_000
_SIZE_MAX: Final = 32 << 20
_CELL_SIZE: Final = 50  # bytes of an object, about
_LOOK_S: Final = 0.05


@attrs.frozen(kw_only=True)
class Answer:
    """The rows of a query."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    has_more: bool
    """Whether the query has more rows than are here."""
    damage_count: int
    """Damaged places of the log that were left out."""


def ask(
    root: str, text: str, budget: WorkBudget, *, memory_size: int, count: int = _ROWS_MAX
) -> Answer:
    """Run one query.

    Args:
        root: the store's directory.
        text: the query.
        budget: the query ends when it is spent.
        memory_size: bytes of memory for DuckDB.
        count: rows to return, at most.

    Raises:
        BadRequestError: the query is refused, fails, or takes too long.
        NotThereError: DuckDB is not installed, or the log does not exist.
    """
    try:
        from reput_arrow.export.sqlquery.database import Database
        from reput_arrow.export.sqlquery.errors import QueryError
        from reput_arrow.export.sqlquery.logtable import Selected
    except ModuleNotFoundError as error:
        raise NotThereError(_missing(error)) from None
    selected = Selected(path=root, skips_damage=True)
    with tempfile.TemporaryDirectory(prefix="reput-web-sql-") as directory:
        try:
            database = Database(selected, memory_size, directory)
        except ModuleNotFoundError as error:
            raise NotThereError(_missing(error)) from None
        with contextlib.closing(database), _ended_by(budget, database.interrupt):
            try:
                queries = database.statements(text)
                if len(queries) != 1:
                    raise BadRequestError("One query expected, without another one behind it.")
                answer = database.ask(queries[0])
                rows, has_more = _taken(answer.rows, count)
            except QueryError as error:
                raise BadRequestError(_reason(error, budget)) from None
    return Answer(
        names=answer.names,
        rows=tuple(rows),
        has_more=has_more,
        damage_count=answer.source.damage_count,
    )


def _taken(found: Iterator[tuple[Any, ...]], count: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return rows up to a number, and to a size in memory; and whether there are more."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in found:
        if len(rows) >= count or size >= _SIZE_MAX:
            return rows, True
        rows.append(row)
        size += sum(_CELL_SIZE + len(each) for each in row if isinstance(each, str | bytes | dict))
    return rows, False


def _missing(error: ModuleNotFoundError) -> str:
    from reput.installhints import install_extra

    return f"Queries need {error.name}: {install_extra('web', 'sql')}"


def _reason(error: Exception, budget: WorkBudget) -> str:
    if budget.is_spent:
        return f"The query took longer than {budget.seconds:g} s, and was ended."
    return f"SQL: {error}"


@contextlib.contextmanager
def _ended_by(budget: WorkBudget, end: Any) -> Iterator[None]:
    """Call ``end`` when the budget is spent, until the block is left."""
    left = threading.Event()

    def watch() -> None:
        while not left.wait(_LOOK_S):
            if budget.is_spent:
                end()

    watcher = threading.Thread(target=watch, name="reput-web-sql-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        watcher.join()


def columns_of_messages() -> list[tuple[str, str]]:
    """Return names and types of the table's columns; none where Arrow is not installed."""
    try:
        from reput_arrow.export.sqlquery.logtable import Source
    except ModuleNotFoundError:
        return []
    return [(field.name, str(field.type)) for field in Source.schema()]


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.hex() if isinstance(value, bytes) else str(value)


def shown(value: Any) -> str | None:
    """Return a value as a cell shows it; None for NULL."""
    found = plain(value)
    if found is None or isinstance(found, str):
        return found
    return json.dumps(found, ensure_ascii=False)


def as_csv(answer: Answer) -> bytes:
    """Return the rows as CSV, with a first line of names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.names)
    writer.writerows([shown(value) for value in row] for row in answer.rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def as_parquet(answer: Answer) -> bytes:
    """Return the rows as a Parquet file; maps and lists are JSON texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [
        name if name not in answer.names[:place] else f"{name}_{place}"
        for place, name in enumerate(answer.names)
    ]
    columns = []
    for place in range(len(names)):
        values = [row[place] for row in answer.rows]
        if any(isinstance(value, dict | list | tuple) for value in values):
            values = [shown(value) for value in values]
        try:
            columns.append(pa.array(values))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            columns.append(pa.array([shown(value) for value in values], pa.string()))
    target = io.BytesIO()
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), target)
    return target.getvalue()

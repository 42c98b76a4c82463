"""`TablePlugin`: a plugin that is a SQL table; its author writes a schema and one function."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import reput
from reput.errors import (
    CorruptFileError,
    PluginError,
    ReputError,
    ServiceNotAvailableError,
)
from reput.files import is_disk_full
from reput_table.connections import (
    FILE_NAME,
    Selected,
    connect_in_memory,
    place_of,
    reading,
    run_query,
)
from reput_table.pendingrows import Parting, PendingRows
from reput_table.rowscode import code_mark
from reput_table.schema import Schema
from reput_table.tablecheck import Layout, check_table
from reput_table.tablefile import TableFile

if TYPE_CHECKING:
    from reput_table.shards import TableBuilder
    from reput_tools.offline import Compared, Comparison, Difference

logger = logging.getLogger(__name__)

_PENDING_MAX = 1 << 16  # rows; more are moved into the transaction by the dispatch itself
_UNCOMMITTED_MAX = 1 << 18  # rows; a longer transaction is committed before a flush asks for it


class TablePlugin(reput.Plugin):
    """Base class of plugins that keep a table; `query` asks it.

        class Words(TablePlugin):
            name = "words"
            schema = Schema(columns={"word": str, "physical_offset": int}, indexes=[["word"]])

            def rows(self, batch): ...

    The table is ``<store>/<plugin>/table.sqlite``. Rows, and how far the log is in the table, are
    committed together, so that each message counts once. A subclass needs no hook.
    """

    schema: ClassVar[Schema]
    """The table's columns."""
    version: ClassVar[int] = 1
    """Raise it whenever `rows` gives other rows for the same messages: tables are made again."""
    part_size: ClassVar[int] = 64 << 20
    """Bytes of the log whose rows are forgotten, and derived again, together. A table with a key
    has a row for each part of the log and key."""
    check_size: ClassVar[int] = 16 << 20
    """Largest file, bytes, of which every row is checked at each opening."""

    contract_options: ClassVar[Mapping[str, Any]] = {"same_files": False}
    """For `reput plugins check`: equal logs give equal rows, in files that may differ."""

    _context: reput.StoreContext | None = None
    _file: TableFile | None = None
    _pending: PendingRows
    _uncommitted: list[PendingRows]
    """What the file's transaction holds, for another one if the disk is full."""
    _failure: BaseException | None = None
    _progress = 0
    _opening_end = 0  # physical offset at which the log ended when the plugin was opened

    def rows(self, batch: reput.DispatchBatch) -> Any:
        """Return the rows of messages: columns by name, an Arrow table, or None for no rows.

        A column is a numpy array, a `reput.record.TextColumn`, a list, one value for all rows, or
        a pair of codes and names such as ``(batch.topic_code, batch.topics)``. The result must
        follow from the messages alone, and rows must not depend on where a batch begins or ends.

        Args:
            batch: one message or more; read-only, valid until the call returns.
        """
        raise NotImplementedError(f"{type(self).__name__} must say which rows a batch gives")

    def query(
        self, sql: str, parameters: Sequence[Any] = (), *, timeout: float = 30.0
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a ``SELECT``; the table has the plugin's name.

        In a writable store all dispatched messages are seen, in a read-only store those of the
        writer's last flush. The log of Python has a warning if the plugin gets no messages and
        lacks some, or lacks messages that the log had when the plugin was opened. A flush of the
        plugin waits until the query has ended.

        Args:
            sql: the query, in SQLite's SQL.
            parameters: values for the question marks in ``sql``.
            timeout: seconds after which the query is given up.

        Raises:
            QueryError: a query that SQLite refuses, that would change something, or that takes too
                long.
            CorruptFileError: the file is damaged; opening the store for writing makes it again.
        """
        with self.select(sql, parameters, timeout=timeout) as found:
            rows = list(found)
        self._warn_if_incomplete(found)
        return rows

    @contextmanager
    def select(
        self, sql: str, parameters: Sequence[Any] = (), *, timeout: float = 30.0
    ) -> Iterator[Selected]:
        """Run a ``SELECT`` as `query` does; its rows are read one by one, in a ``with`` block.

        It logs no warning: ``lag_size`` of the result shows how far the table is behind the log.
        A flush of the plugin, also in another process, waits until the block ends. The timeout
        counts until then.

        Raises:
            QueryError: as for `query`.
            CorruptFileError: as for `query`.
        """
        context = self._opened()
        columns = tuple(self.schema.types)
        if not context.writable:
            with (
                self._read() as connection,
                run_query(
                    connection, context.plugin, columns, sql, parameters, timeout
                ) as selected,
            ):
                yield self._placed(selected, max(place_of(connection), self._progress))
            return
        with self._using:
            # Asked first. It may be ahead of the rows: the store skips damage without a call.
            seen = self._asked("dispatched_to", 0)
            self._drain()
            connection = self._made().connection
            with run_query(
                connection, context.plugin, columns, sql, parameters, timeout
            ) as selected:
                yield self._placed(selected, max(self._dispatched_to, seen))

    def _placed(self, selected: Selected, dispatched_to: int) -> Selected:
        log = self._opened().log
        selected.dispatched_to = max(dispatched_to, log.min_physical_offset)
        selected.lag_size = max(log.max_physical_offset - selected.dispatched_to, 0)
        return selected

    def _warn_if_incomplete(self, selected: Selected) -> None:
        if not selected.lag_size:
            return
        context = self._opened()
        stopped = context.writable and not self._asked("gets_messages", True)
        if stopped or selected.dispatched_to < self._opening_end:
            logger.warning(
                "the table lacks messages that the log has plugin=%s lag_size=%d gets_messages=%s",
                context.plugin,
                selected.lag_size,
                ("no" if stopped else "yes") if context.writable else "unknown",
            )

    def _asked(self, name: str, default: Any) -> Any:
        """Return a property of the store; ``default`` where no store is open, as in some tests."""
        with suppress(ServiceNotAvailableError):
            return getattr(self._opened().store, name)
        return default

    def contract_state(self) -> list[tuple[Any, ...]]:
        """Return all rows, sorted: what `reput plugins check` compares."""
        name, columns = self._opened().plugin, self.schema.types
        listed = ", ".join(f'"{each}"' for each in columns)
        order = ", ".join(str(number + 1) for number in range(len(columns)))
        return self.query(f'SELECT {listed} FROM "{name}" ORDER BY {order}')

    # ------------------------------------------------------------------ hooks

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        """Begin with nothing; `reput_recover` opens the file."""
        self.reput_close()
        self._context, self._file, self._failure = context, None, None
        self._process = os.getpid()
        self._pending, self._uncommitted = PendingRows(self.schema), []
        self._parting = Parting(context.log.file_size, self.part_size)
        self._layout = self._layout_in(context)
        self._path = context.directory(context.plugin, FILE_NAME)
        self._is_sound = False  # for readers: whether the file was checked
        self._lock = threading.Lock()  # of what is pending; held for moments
        self._using = threading.RLock()  # of the connection; held through queries and flushes

    @reput.hookimpl
    def reput_recover(self, progress: int) -> int:
        """Cut the table to ``progress``, or recreate it if it is damaged or of other options."""
        context = self._opened()
        self._progress, self._opening_end = progress, context.log.max_physical_offset
        if not context.writable:
            self._check_as_reader()
            return progress
        with self._using:
            try:
                self._file = TableFile.open(self._layout, self._path, context.disk, self.check_size)
            except CorruptFileError as error:
                logger.warning("recreating the table: %s", str(error))  # it holds a cursor
            if self._file is None:
                return 0
            self._look_at_code(self._file)
            self._file.trim(context.log.min_physical_offset)
            self._file.cut(progress, self._parting)
            if self._file.connection.in_transaction:
                self._file.commit()
            self._pending.dispatched_to = self._file.dispatched_to
            return self._file.dispatched_to

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        """Keep the rows of ``batch`` for the next flush."""
        self._refuse_after_failure()
        fresh = batch.after(self._pending.dispatched_to)
        made = PendingRows.of(fresh, self.schema, self._parting, self.rows)
        with self._lock:
            self._pending.add(made)
            count = len(self._pending)
        if count > _PENDING_MAX:
            with self._using:
                self._drain()
                if self._made().uncommitted > _UNCOMMITTED_MAX:
                    self._commit()

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Commit the rows of all dispatched messages, with their place."""
        with self._using:
            self._drain()
            if self._file is not None and self._file.connection.in_transaction:
                self._commit()

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Forget the rows of messages that the log has removed."""
        with self._using:
            self._drain()
            if self._file is not None:
                with self._noting_failure():
                    self._file.trim(min_physical_offset)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_shards(self, context: reput.StoreContext) -> TableBuilder:
        """Return what builds the table from splits of the log."""
        from reput_table.shards import TableBuilder

        parting = Parting(context.log.file_size, self.part_size)
        layout = attrs.evolve(self._layout_in(context), code_mark=code_mark(type(self)))
        return TableBuilder(layout, parting, self.rows, context.disk)

    @reput.hookimpl
    def reput_report(self) -> dict[str, object] | None:
        """Return the size of the file, and how far the log is in the table."""
        context = self._opened()
        if not context.disk.exists(self._path):
            return None
        facts: dict[str, object] = {"file_size": context.disk.status(self._path).st_size}
        if self._file is not None:
            facts |= {"dispatched_to": self._file.dispatched_to, "parts": len(self._file.parts)}
        return facts

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close the file."""
        if self._context is None:
            return
        with self._using:
            if self._file is not None:
                self._file.close()
            # A later call must not recreate the file.
            self._context = self._file = None

    @reput.hookimpl(optionalhook=True)
    def reput_tools_compare(
        self, comparison: Comparison, differences: Sequence[Difference]
    ) -> Compared:
        """Compare rows: SQLite's files differ in what rows were before, and in order."""
        from reput_table.comparison import weigh

        return weigh(comparison, differences)

    # ------------------------------------------------------------------ the file

    def _opened(self) -> reput.StoreContext:
        if self._context is None:
            raise PluginError(self.name, "its table is not open: the store or the plugin is closed")
        if os.getpid() != self._process:
            raise PluginError(self._context.plugin, "a forked child cannot use its parent's table")
        return self._context

    def _layout_in(self, context: reput.StoreContext) -> Layout:
        parts = (1, self.version, self.config, context.log.file_size, self.part_size)
        fingerprint = hashlib.sha256(repr(parts).encode()).hexdigest()
        mark = code_mark(type(self)) if context.writable else 0
        return Layout(self.schema, context.plugin, fingerprint, mark)

    def _look_at_code(self, file: TableFile) -> None:
        """Warn if other code made the table's rows; note the code's mark if the file has none."""
        made_by, now = file.code_mark, self._layout.code_mark
        if made_by and now and made_by != now:
            logger.warning(
                "rows() has changed since the table was made, and version is the same: messages "
                "of before keep their rows; write version = %d in %s, and the table is rebuilt "
                "plugin=%s",
                self.version + 1,
                type(self).__name__,
                file.layout.view,
            )
        elif now and not made_by:
            file.mark_code()

    def _made(self) -> TableFile:
        """Return the file; make it if it does not exist."""
        if self._file is None:
            self._file = TableFile.make(self._layout, self._path, self._opened().disk)
        return self._file

    def _drain(self) -> None:
        """Move what is pending into the file's transaction."""
        self._refuse_after_failure()
        with self._lock:
            pending = self._pending
            if not pending.parts and pending.dispatched_to == self._dispatched_to:
                return
            self._pending = PendingRows(self.schema, pending.dispatched_to)
        self._uncommitted.append(pending)
        with self._noting_failure():
            self._made().add(pending)

    @property
    def _dispatched_to(self) -> int:
        return 0 if self._file is None else self._file.dispatched_to

    def _commit(self) -> None:
        with self._noting_failure():
            self._made().commit()
        self._uncommitted.clear()

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._failure = error
            if is_disk_full(error):
                self._take_back()
                self._failure = None
            raise

    def _take_back(self) -> None:
        """Undo the transaction; its rows are pending again, in front of later rows."""
        if self._file is not None:
            self._file.roll_back()
        with self._lock:
            pending = PendingRows(self.schema, self._dispatched_to)
            for each in (*self._uncommitted, self._pending):
                pending.add(each)
            self._pending = pending
        self._uncommitted.clear()

    def _refuse_after_failure(self) -> None:
        """Raise if rows were lost in a failure: nothing counts until the plugin is opened again."""
        if self._failure is not None:
            reason = f"it failed before and must be resumed: {self._failure}"
            raise PluginError(self._layout.view, reason) from self._failure

    # ------------------------------------------------------------------ as a reader

    def _check_as_reader(self) -> None:
        try:
            with self._read():
                pass
        except (ReputError, OSError) as error:
            self._opened().note_problem(f"{self._path}: the table is not used: {error}")

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """Connect to what the writer has flushed; to an empty table if that is nothing."""
        context = self._opened()
        if not context.disk.exists(self._path):
            if self._progress > context.log.min_physical_offset:
                raise CorruptFileError(self._path, 0, f"the file is missing; {_STEP}")
            with closing(connect_in_memory(self.schema, context.plugin)) as empty:
                yield empty
            return
        with reading(self._path, context.disk) as connection:
            if not self._is_sound:
                size = context.disk.status(self._path).st_size
                if not check_table(connection, self._layout, self._path, size, self.check_size):
                    reason = f"the table was made by another version or with other options; {_STEP}"
                    raise PluginError(context.plugin, reason)
                self._is_sound = True
            yield connection


_STEP = "open the store for writing once, which recreates the table"

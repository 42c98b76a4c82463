"""Build a table from splits of the log, in parallel.

Each split's rows become a table in memory, which is written aside. The driver adds these tables, in
the order of the log, to the new file; sums and the like are added up where a part of the log was
split.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import attrs

from reput.files import Disk
from reput_table.connections import FILE_NAME, connect_in_memory
from reput_table.pendingrows import Parting, PendingRows
from reput_table.tablecheck import Layout
from reput_table.tablefile import TableFile

if TYPE_CHECKING:
    from reput.record import DispatchBatch
    from reput_tools.offline import Split

_SPLITS: Final = "splits"
"""Directory of the splits' tables, next to the new one; removed when the rebuild ends."""
_PENDING_MAX: Final = 1 << 16


@attrs.frozen
class SplitRows:
    """The rows of one split."""

    path: str
    dispatched_to: int
    """Physical offset at which the split's last batch ends."""


@attrs.define(eq=False)
class TableScan:
    """Makes the table of one split."""

    builder: TableBuilder
    path: str
    _pending: PendingRows = attrs.field(init=False)
    _table: TableFile = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        layout = self.builder.layout
        self._pending = PendingRows(layout.schema)
        connection = connect_in_memory(layout.schema, layout.view)
        self._table = TableFile(layout, self.path, self.builder.disk, connection)

    def add(self, batch: DispatchBatch) -> None:
        """See `reput_tools.offline.ShardScan.add`."""
        builder = self.builder
        made = PendingRows.of(batch, builder.layout.schema, builder.parting, builder.rows)
        self._pending.add(made)
        if len(self._pending) > _PENDING_MAX:
            self._drain()

    def _drain(self) -> None:
        self._table.add(self._pending)
        self._pending = PendingRows(self.builder.layout.schema, self._pending.dispatched_to)

    def finish(self) -> SplitRows:
        """Write the table aside, under a name of this attempt first. Nothing is flushed."""
        self._drain()
        self._table.commit()
        data = self._table.connection.serialize()
        self._table.close()
        disk, attempt = self.builder.disk, f"{self.path}.{uuid.uuid4().hex}"
        disk.make_directory(os.path.dirname(self.path))
        descriptor = disk.open(attempt, create=True)
        try:
            disk.write(descriptor, data, 0)
        finally:
            disk.close(descriptor)
        disk.rename(attempt, self.path)
        return SplitRows(self.path, self._table.dispatched_to)


@attrs.define(eq=False)
class TableBuilder:
    """Builds the table; see `reput_tools.offline.ShardBuilder`."""

    layout: Layout
    parting: Parting
    rows: Callable[[DispatchBatch], Any]
    disk: Disk

    @property
    def directories(self) -> Sequence[str]:
        """The plugin's directory."""
        return (self.layout.view,)

    def begin(self, split: Split, staging: str) -> TableScan:
        """See `reput_tools.offline.ShardBuilder.begin`."""
        return TableScan(self, f"{staging}/{_SPLITS}/{split.start_offset:020d}")

    def plan(self, scanned: Sequence[SplitRows]) -> Sequence[Any]:
        """Return no task: what remains is to add the splits up, in order."""
        return ()

    def build(self, task: Any, staging: str) -> Any:
        """Do nothing; `plan` has no tasks."""

    def finish(self, scanned: Sequence[SplitRows], built: Sequence[Any], staging: str) -> None:
        """Add the tables of the splits up."""
        if not scanned:
            return
        path = f"{staging}/{self.layout.view}/{FILE_NAME}"
        table = TableFile.make(self.layout, path, self.disk)
        try:
            table.connection.execute("PRAGMA synchronous = OFF")  # flushed once, below
            for each in scanned:
                self._add_split(table, each)
        finally:
            table.close()
        descriptor = self.disk.open(path, write=True)
        try:
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)
        self.disk.flush_directory(os.path.dirname(path))

    def _add_split(self, table: TableFile, split: SplitRows) -> None:
        table.connection.execute(
            "ATTACH DATABASE ? AS split", (f"file:{quote(split.path)}?mode=ro",)
        )
        table.add_attached("split", split.dispatched_to)
        table.commit()
        table.connection.execute("DETACH DATABASE split")

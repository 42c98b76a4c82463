"""`Source`: the messages of stores as a stream of Arrow batches, as DuckDB reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from reput_arrow import COLUMNS, scan
from reput_arrow.reader.selection import BROKER_COLUMN, DAMAGE_COLUMN, STORE_COLUMN

if TYPE_CHECKING:
    from reput_arrow.scanner.scanrequest import Moment, Paths

_BATCH_SIZE: Final = 4 << 20
_NAMES: Final = (*(each.name for each in COLUMNS), STORE_COLUMN, BROKER_COLUMN)
_WITHOUT_ZONE: Final = pa.timestamp("ms")


@attrs.frozen(kw_only=True)
class Selected:
    """Which messages are in the table."""

    path: Paths
    topics: tuple[str, ...] | None = None
    since: Moment | None = None
    until: Moment | None = None
    skips_damage: bool = False
    """Whether reading goes on after damage, which is counted; else it ends with an error."""


@attrs.define(eq=False)
class Source:
    """Some columns of the messages; each reading starts at the first message.

    DuckDB wraps what a stream raises into an error of its own: `error` keeps the first one.
    """

    selected: Selected
    columns: tuple[str, ...]
    error: Exception | None = None
    damage_count: int = 0

    @staticmethod
    def schema() -> pa.Schema:
        """The schema of all columns: bodies are text, and times are UTC, without a zone."""
        empty = Source(Selected(path="."), _NAMES)
        return pa.schema(list(map(_without_zone, empty._scan().schema)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new stream over the messages, as a PyCapsule."""
        found = self._scan()
        schema = pa.schema(
            [_without_zone(field) for field in found.schema if field.name != DAMAGE_COLUMN]
        )
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(found, schema))
        return reader.__arrow_c_stream__(requested_schema)

    def _scan(self) -> Any:
        selected = self.selected
        return scan(
            selected.path,
            topic=selected.topics,
            since=selected.since,
            until=selected.until,
            columns=self.columns,
            body="text",
            corrupt="report" if selected.skips_damage else "fail",
            batch_size=_BATCH_SIZE,
        )

    def _batches(
        self, found: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        try:
            for batch in found:
                yield self._finished(batch, schema)
        except Exception as error:
            self.error = self.error or error
            raise

    def _finished(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if self.selected.skips_damage:
            is_whole = pc.is_null(batch.column(DAMAGE_COLUMN))
            whole = batch.filter(is_whole)
            self.damage_count += batch.num_rows - whole.num_rows
            batch = whole
        columns = [batch.column(field.name).cast(field.type) for field in schema]
        return pa.record_batch(columns, schema=schema)


def _without_zone(field: pa.Field) -> pa.Field:
    return field.with_type(_WITHOUT_ZONE) if pa.types.is_timestamp(field.type) else field

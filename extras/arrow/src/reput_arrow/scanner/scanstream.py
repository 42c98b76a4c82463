"""`Scan`: messages of logs as a stream of Arrow batches, which starts again for each reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from reput_arrow.reader.readtasks import plan_tasks, read_task
from reput_arrow.textarrays import as_text

if TYPE_CHECKING:
    from polars import LazyFrame

    from reput_arrow.reader.selection import Selection

BATCH_SIZE: Final = 16 << 20
"""Bytes of an Arrow batch, at most, when left out."""
_WINDOW_ROWS: Final = 1 << 20  # no window of the log has so many records


@attrs.frozen(eq=False)
class Scan:
    """Messages of logs, not read yet: every iteration and every stream reads the logs again.

    It has the Arrow PyCapsule interface, by which Polars, DuckDB, pandas, PyArrow and others read
    it batch by batch. Where a log ends is looked for when the reading begins.
    """

    selection: Selection
    schema: pa.Schema
    """Of every batch."""
    batch_size: int = BATCH_SIZE
    """Bytes of a batch, at most, but for a message that is larger alone."""

    def __repr__(self) -> str:
        chosen = self.selection
        limits = [
            f" {field.name}={_shown(getattr(chosen, field.name))}"
            for field in attrs.fields(type(chosen))
            if field.name != "paths" and getattr(chosen, field.name) != field.default
        ]
        paths = ", ".join(map(repr, chosen.paths))
        return f"<Scan of {paths}{''.join(limits)} columns={', '.join(self.schema.names)}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches in the order of the logs and of their messages.

        Raises:
            StoreNotFoundError: no log at a path.
            CorruptFileError: damage, with ``corrupt="fail"``.
        """
        return _sized(map(self._finished, self._made()), self.batch_size)

    def reader(self) -> pa.RecordBatchReader:
        """Return a new stream over the messages."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def table(self) -> pa.Table:
        """Return all messages at once.

        Raises:
            StoreNotFoundError: no log at a path.
            CorruptFileError: damage, with ``corrupt="fail"``.
        """
        return pa.Table.from_batches(iter(self), self.schema)

    def lazy(self) -> LazyFrame:
        """Return a Polars LazyFrame, which reads only the columns that its query needs."""
        from reput_arrow.scanner.polarsframe import lazy_frame

        return lazy_frame(self.schema, self.only)

    def only(self, columns: Iterable[str]) -> Scan:
        """Return a scan of some of the columns, in the order given."""
        return attrs.evolve(self, schema=pa.schema([self.schema.field(name) for name in columns]))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new stream as a PyCapsule."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Return the schema as a PyCapsule."""
        return self.schema.__arrow_c_schema__()

    def _made(self) -> Iterator[pa.RecordBatch]:
        """Yield batches as the log has them: bodies are bytes, and sizes are any."""
        schema = _with_type(self.schema, "body", pa.binary())
        options = attrs.evolve(self.selection, batch_rows=_WINDOW_ROWS)
        for task in plan_tasks(options):
            yield from read_task(task, options, schema)

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``batch`` with the body in the type that was asked for."""
        place = self.schema.get_field_index("body")
        if place < 0 or self.schema.field(place).type == batch.schema.field(place).type:
            return batch
        arrays = list(batch.columns)
        arrays[place] = as_text(arrays[place])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _shown(value: object) -> str:
    """Return the text of an option; of a set, its items in their order."""
    return repr(sorted(value)) if isinstance(value, frozenset) else repr(value)


def _with_type(schema: pa.Schema, name: str, kind: pa.DataType) -> pa.Schema:
    place = schema.get_field_index(name)
    if place < 0:
        return schema
    return schema.set(place, schema.field(place).with_type(kind))


def _sized(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Join small batches, and cut large ones, to at most ``most`` bytes; a row is never cut."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for part in _parts(batch, most):
            if held and size + part.nbytes > most:
                yield _joined(held)
                held, size = [], 0
            held.append(part)
            size += part.nbytes
    if held:
        yield _joined(held)


def _parts(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= most or batch.num_rows <= 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle), most)
    yield from _parts(batch.slice(middle), most)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (found,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found

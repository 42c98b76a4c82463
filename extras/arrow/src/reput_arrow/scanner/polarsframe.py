"""A scan as a LazyFrame of Polars, which says what it needs before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def lazy_frame(
    schema: pa.Schema, read_columns: Callable[[list[str]], Iterable[pa.RecordBatch]]
) -> pl.LazyFrame:
    """Return a LazyFrame over batches; each collecting of it reads them again.

    Args:
        schema: of all columns.
        read_columns: returns the batches of some columns, from the first one on.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for batch in read_columns(schema.names if with_columns is None else with_columns):
            part = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - part.num_rows
            frame = pl.DataFrame(part)
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    empty = pl.DataFrame(schema.empty_table())
    return register_io_source(read, schema=empty.schema)

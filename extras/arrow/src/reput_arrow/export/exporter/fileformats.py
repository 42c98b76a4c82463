"""Files of each form: rows come in as tables, bytes go out."""

from __future__ import annotations

from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from reput_arrow.export.exporter.jsontexts import (
    joined_words,
    json_lines,
    json_maps,
    readable_bodies,
)

_ENDS: Final = {"none": "", "gzip": ".gz", "zstd": ".zst"}
ENCODING_COLUMN: Final = "body_encoding"
"""Column beside a body that is text: how the text is to be read."""


class Writer(Protocol):
    """One file that is being written."""

    def write(self, table: pa.Table) -> None:
        """Write rows: in Parquet, as a row group."""
        ...

    def close(self) -> None:
        """End the file."""
        ...


def suffix_of(form: str, compression: str) -> str:
    """Return how names of files end."""
    return ".parquet" if form == "parquet" else f".{form}{_ENDS[compression]}"


def open_writer(form: str, system: Any, path: str, schema: pa.Schema, compression: str) -> Writer:
    """Make a file.

    Args:
        form: one of `FORMS`.
        system: a file system of Arrow.
        path: of the file.
        schema: of the rows.
        compression: one of `COMPRESSIONS` of the form.
    """
    if form == "parquet":
        return _Parquet(system, path, schema, compression)
    codec = None if compression == "none" else compression
    stream = system.open_output_stream(path, compression=codec)
    return _Lines(stream) if form == "jsonl" else _Csv(stream)


class _Parquet:
    def __init__(self, system: Any, path: str, schema: pa.Schema, compression: str) -> None:
        self._writer = pq.ParquetWriter(
            path, schema, filesystem=system, compression=compression, write_statistics=True
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        self._writer.close()


class _Lines:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches():
            self._stream.write(json_lines(_with_text(batch)))

    def close(self) -> None:
        self._stream.close()


class _Csv:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        from pyarrow import csv

        for batch in table.to_batches():
            flat = _flat(_with_text(batch))
            if self._writer is None:
                self._writer = csv.CSVWriter(self._stream, flat.schema)
            self._writer.write_batch(flat)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._stream.close()


def _with_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the body as text, and with a column that says how to read it."""
    place = batch.schema.get_field_index("body")
    if place < 0:
        return batch
    texts, encodings = readable_bodies(batch.column(place))
    arrays, names = list(batch.columns), list(batch.schema.names)
    arrays[place] = texts
    arrays.insert(place + 1, encodings)
    names.insert(place + 1, ENCODING_COLUMN)
    return pa.RecordBatch.from_arrays(arrays, names)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with words joined by spaces, and maps as JSON: CSV has texts and numbers."""
    arrays = []
    for column in batch.columns:
        if pa.types.is_map(column.type):
            arrays.append(json_maps(column))
        elif pa.types.is_list(column.type):
            arrays.append(joined_words(column))
        else:
            arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

"""Rows of one file as Arrow batches of columns that messages have."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reput_arrow import INPUT_COLUMNS
from reput_arrow.codederrors import CodedError
from reput_arrow.export.importer.inputfiles import Source

BATCH_ROWS: Final = 4_096
_LINE_MAX: Final = 256 << 20
_BLOCK_SIZE: Final = 64 << 20
"""Bytes of CSV at once: a row must fit."""
_ENCODING: Final = "body_encoding"
_PASSED_OVER: Final = frozenset(
    {_ENCODING, "store", "damage", "day", "hour", "export", "body_size", "transaction"}
    | {"compression"}
)
"""What exports and ``reput cat --json`` say of a message that is no column of its own."""
_TIMES: Final = pa.timestamp("ms", "UTC")
_KINDS: Final = {
    "text": pa.string(),
    "bytes": pa.binary(),
    "number": pa.int64(),
    "time": _TIMES,
    "words": pa.list_(pa.string()),
    "texts by name": pa.map_(pa.string(), pa.string()),
}
_TYPES: Final = {
    **{each.name: _KINDS.get(each.kind, pa.int64()) for each in INPUT_COLUMNS},
    "msg_id": pa.string(),
}


def rows_of(source: Source) -> Iterator[tuple[pa.Table, int]]:
    """Yield tables of few rows, each with how many bytes of the file are done after it.

    Raises:
        CodedError: a file or a row that cannot be read; the text says where.
    """
    try:
        for rows, done in _READERS[source.form](source):
            yield _with_named(rows, source), done
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CodedError("ROW", f"{source.path}: {error}") from error


def _with_named(rows: pa.Table, source: Source) -> pa.Table:
    """Return the columns of messages, with the columns in names of directories."""
    unknown = set(rows.column_names) - set(_TYPES) - _PASSED_OVER
    if unknown:
        known = ", ".join(each.name for each in INPUT_COLUMNS)
        raise CodedError(
            "ROW",
            f"{source.path}: column {min(unknown)!r} is not a column of a message; "
            f"known columns: {known}",
        )
    found = rows.select([name for name in rows.column_names if name in _TYPES])
    for name, text in source.named.items():
        if name in found.column_names:
            found = found.drop_columns([name])
        try:
            value = int(text) if name == "queue_id" else text
        except ValueError:
            raise CodedError("ROW", f"{source.path}: {name} is {text!r}, no number") from None
        found = found.append_column(name, pa.repeat(pa.scalar(value), len(rows)))
    for place, field in enumerate(found.schema):
        # Files of one export agree, but columns of other writers need not.
        wanted = _TYPES[field.name]
        if field.name in ("keys", "body") or field.type == wanted:
            continue
        if pa.types.is_integer(field.type) and not pa.types.is_timestamp(wanted):
            wanted = pa.int64()
        found = found.set_column(place, field.name, found.column(place).cast(wanted))
    return found


def _parquet(source: Source) -> Iterator[tuple[pa.Table, int]]:
    with pq.ParquetFile(source.path, filesystem=source.system) as file:
        total, count = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(BATCH_ROWS):
            count += batch.num_rows
            yield pa.Table.from_batches([batch]), source.size * count // total


# --------------------------------------------------------------------------- JSON lines


def _jsonl(source: Source) -> Iterator[tuple[pa.Table, int]]:
    with source.system.open_input_stream(source.path) as stream:
        file = io.BufferedReader(stream)
        number, rows, read = 0, [], 0
        while line := file.readline(_LINE_MAX):
            number += 1
            read += len(line)
            if line.strip():
                rows.append(_object(source, number, line))
            if len(rows) == BATCH_ROWS:
                yield _table_of(source, number, rows), min(read, source.size)
                rows = []
        if rows:
            yield _table_of(source, number, rows), source.size


def _object(source: Source, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:  # also for other bytes than UTF-8
        raise CodedError("ROW", f"{source.path}, line {number}: not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise CodedError("ROW", f"{source.path}, line {number}: no object, but {found!r:.40}")
    if "body" in found:
        found["body"] = _decoded(source, number, found["body"], found.get(_ENCODING))
    if isinstance(found.get("properties"), dict):
        found["properties"] = list(found["properties"].items())
    return found


def _decoded(source: Source, number: int, body: Any, encoding: Any) -> bytes:
    """Return the bytes of a body: text, base64 or hex, as the encoding says."""
    try:
        if encoding == "base64":
            return base64.b64decode(body, validate=True)
        if encoding == "hex":
            return bytes.fromhex(body)
        if encoding in (None, "utf-8") and isinstance(body, str):
            return body.encode()
    except (ValueError, TypeError) as error:
        raise CodedError("ROW", f"{source.path}, line {number}: body: {error}") from None
    if isinstance(body, str):
        raise CodedError(
            "ROW", f"{source.path}, line {number}: {_ENCODING} {encoding!r}, not utf-8 or base64"
        )
    raise CodedError("ROW", f"{source.path}, line {number}: the body is not text: {body!r:.40}")


def _table_of(source: Source, number: int, rows: list[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        kind = _TYPES.get(name)
        try:
            columns[name] = pa.array([row.get(name) for row in rows], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            where = f"{source.path}, lines up to {number}"
            raise CodedError("ROW", f"{where}: column {name!r}: {error}") from None
    return pa.table(columns)


# --------------------------------------------------------------------------- CSV


def _csv(source: Source) -> Iterator[tuple[pa.Table, int]]:
    from pyarrow import csv

    with source.system.open_input_stream(source.path) as stream:
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=_BLOCK_SIZE, use_threads=False),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys([*_TYPES, *_PASSED_OVER], pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        done = 0
        for batch in reader:
            done = min(done + batch.nbytes, source.size)
            yield pa.table({name: _of_text(source, batch, name) for name in _named(batch)}), done


def _named(batch: pa.RecordBatch) -> list[str]:
    return [name for name in batch.schema.names if name != _ENCODING]


def _of_text(source: Source, batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column of texts in the type that messages have."""
    column = batch.column(name)
    if name == "body":
        return _bodies(source, batch)
    if name == "properties":
        pairs = [None if text is None else _pairs(source, text) for text in column.to_pylist()]
        return pa.array(pairs, _TYPES[name])
    if name == "keys":  # as words, as other forms have them
        return pc.split_pattern(pc.fill_null(column, ""), " ")
    if name not in _TYPES:
        return column
    return column.cast(_TYPES[name])


def _bodies(source: Source, batch: pa.RecordBatch) -> pa.Array:
    texts = batch.column("body")
    if _ENCODING not in batch.schema.names:
        return texts.cast(pa.binary())
    encodings = batch.column(_ENCODING)
    if set(encodings.unique().to_pylist()) == {"utf-8"}:
        return texts.cast(pa.binary())
    decoded = [
        _decoded(source, 0, "" if text is None else text, encoding)
        for text, encoding in zip(texts.to_pylist(), encodings.to_pylist(), strict=True)
    ]
    return pa.array(decoded, pa.binary())


def _pairs(source: Source, text: str) -> list[tuple[str, str]]:
    try:
        return [(str(name), str(value)) for name, value in json.loads(text).items()]
    except (ValueError, AttributeError) as error:
        raise CodedError(
            "ROW", f"{source.path}: properties {text!r:.60}: a JSON object expected ({error})"
        ) from None


_READERS: Final = {"parquet": _parquet, "jsonl": _jsonl, "csv": _csv}

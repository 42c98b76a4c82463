"""Rows of a table as an Arrow batch, with types that are named as in SQL.

batch_of([{"topic": "orders", "queue_id": 0}], "topic string, queue_id int")
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def batch_of(rows: list[dict[str, Any]], columns: str) -> pa.RecordBatch:
    """Return rows as one batch.

    Args:
        rows: values by name; a column that a row lacks is null, and times are ms.
        columns: names and types as in SQL: ``"topic string, queue_id int"``.
    """
    types = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    arrays, fields = [], []
    for each in columns.split(", "):
        name, kind = each.split(" ")
        values = [row.get(name) for row in rows]
        if kind == "timestamp":
            values = [None if value is None else value * 1_000 for value in values]
        arrays.append(pa.array(values, types[kind]))
        fields.append(pa.field(name, types[kind]))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
